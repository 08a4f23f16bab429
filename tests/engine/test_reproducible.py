"""Same seed, same run; another seed for one purpose changes that alone; a state goes on exactly."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from moca import Batch
from tests.engine.methods import MOST

METHODS = MOST | {
    "a schedule": {"perturb": "vt", "schedule": "steps:at=1"},
    "momentum": {"learner": "er_ace:mask=official", "optimiser": "sgd:momentum=0.9,anew=false"},
    "adam": {"optimiser": "adam", "schedule": "cosine:anew=false", "lr": 0.01},
    "icarl online": {"learner": "icarl:form=online"},
    "adjusted": {"learner": "derpp:adjust=auto", "counts": (20, 20, 20, 20), "batch": 14},
    "concatenated": {"learner": "er:passes=concatenated", "perturb": "gaussian"},
    "official passes": {"perturb": "vmf:kappa=20", "bn_passes": "official", "short_batch": "skip"},
}


def assert_identical(a, b):
    """Bit by bit, through dictionaries and lists."""
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert a.equal(b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_identical(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_identical(x, y)
    else:
        assert a == b


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


STOPS = (1, 3, 6, 7, 12)
"""Of 12 steps, 3 batches x 2 epochs x 2 tasks: within an epoch and at its border, in both tasks and between them."""


@pytest.fixture(scope="module", params=METHODS)
def whole(request, make_trainer, train):
    """A method's settings, its losses, what it was after none and some of its steps, and what it ended as."""
    method = METHODS[request.param]
    trainer = make_trainer(**method)
    states = {0: trainer.state_dict()}

    def look(t):
        if t.schedule.steps_done in STOPS:
            states[t.schedule.steps_done] = t.state_dict()

    history = train(trainer, look)
    assert len(history) == 12
    return method, history, states, trainer.state_dict()


def test_same_seed_same_bits(make_trainer, train, whole):
    method, history, _, end = whole
    torch.rand(5)  # somebody else's random numbers must not matter
    again = make_trainer(**method)
    assert train(again) == history
    assert_identical(again.state_dict(), end)


def test_resumes_exactly_from_between_any_two_steps(make_trainer, train, whole):
    """From within the first task to the end; from elsewhere to the next stop, and its state there is the one that the
    next goes on from."""
    method, history, states, end = whole
    unbegun = make_trainer(**method)
    unbegun.load_state_dict(through_a_file(states[0]))
    assert_identical(unbegun.state_dict(), states[0])
    assert tuple(states) == (0, *STOPS)
    for done, stop in zip(STOPS, (*STOPS[1:], None), strict=True):
        until = None if done == 3 else stop
        resumed = make_trainer(**method)
        resumed.load_state_dict(through_a_file(states[done]))
        assert resumed.schedule.steps_done == done
        assert train(resumed, until=until) == history[done:until]
        assert_identical(resumed.state_dict(), states.get(until, end))


def test_resumes_exactly_after_the_next_task_has_begun(make_trainer, train):
    method = METHODS["a schedule"] | {"optimiser": "sgd:momentum=0.9"}
    trainer = make_trainer(**method)
    list(trainer.steps())
    trainer.next_task()
    state = through_a_file(trainer.state_dict())
    history = train(trainer)
    resumed = make_trainer(**method)
    resumed.load_state_dict(state)
    assert train(resumed) == history
    assert_identical(resumed.state_dict(), trainer.state_dict())


def test_a_state_in_memory_is_a_copy_and_can_be_used_twice(make_trainer, train):
    method = METHODS["a schedule"] | {"optimiser": "sgd:momentum=0.9"}
    trainer = make_trainer(**method)
    steps = trainer.steps()
    for _ in range(4):
        next(steps)
    state = trainer.state_dict()
    kept = through_a_file(state)
    rest = [{k: v.item() for k, v in step.losses.items()} for step in steps]
    assert_identical(state, kept)
    for _ in range(2):
        resumed = make_trainer(**method)
        resumed.load_state_dict(state)
        again = [{k: v.item() for k, v in step.losses.items()} for step in resumed.steps()]
        assert again == rest


PURPOSES = ["classes", "init", "data", "augment", "memory", "perturb"]


def traces(make_trainer, seed):
    """What each purpose's random numbers decide, one by one."""
    trainer = make_trainer((12,) * 10, tasks=5, class_order="random", perturb="gaussian", seed=seed)
    weights = torch.cat([p.detach().flatten() for p in trainer.learning.model.parameters()])
    visited = []
    choices = trainer.schedule.stream.train.images[trainer.schedule.tasks[0].train].flatten(1)
    trainer.learning.step = lambda raw, y: (
        visited.append(torch.cdist(raw.flatten(1) * 1.0, choices * 1.0).argmin(1)) or {}
    )
    list(trainer.steps())
    images = trainer.schedule.stream.train.images[:8]
    trainer.learning.memory.add(y=torch.arange(100))
    replay = Batch(features=torch.arange(15.0).view(3, 5) + 1)
    return {
        "classes": trainer.schedule.stream.names,
        "init": weights.tolist(),
        "data": torch.cat(visited).tolist(),
        "augment": trainer.learning.transform(images).tolist(),
        "memory": (trainer.learning.memory.all()["y"].tolist(), trainer.learning.memory.draw(5)["y"].tolist()),
        "perturb": trainer.learning.learner.perturbation(replay, Batch()).tolist(),
    }


@pytest.mark.parametrize("purpose", PURPOSES)
def test_the_seed_of_one_purpose_changes_only_its_own_thing(make_trainer, purpose):
    before, after = traces(make_trainer, 0), traces(make_trainer, f"0:{purpose}=1")
    assert [p for p in PURPOSES if before[p] != after[p]] == [purpose]


def test_one_seed_changes_everything(make_trainer):
    before, after = traces(make_trainer, 0), traces(make_trainer, 1)
    assert all(before[p] != after[p] for p in PURPOSES)


def test_the_global_random_state_is_left_alone(make_trainer, train):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(make_trainer(perturb="gaussian"))
    assert torch.rand(3).equal(expected)


def test_runs_in_threads_are_the_runs_alone(make_trainer, train):
    """Their batches for BatchNorm have different sizes."""

    def losses(batch):
        return train(make_trainer(batch=batch, perturb="wap"))

    alone = [losses(batch) for batch in (6, 7)]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(losses, (6, 7))) == alone
