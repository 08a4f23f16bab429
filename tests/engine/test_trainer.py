"""The trainer against a loop in plain PyTorch that is slow and easy to believe."""

import copy
from functools import cache
from pathlib import Path

import pytest
import torch

from moca.parts import LEARNERS
from tests.engine import twins
from tests.engine.methods import EVERY, MOVING
from tests.engine.twin import Plain, twin

METHODS = EVERY | {
    "options": {"learner": "derpp:alpha=0.4,beta=0.8", "perturb": "gaussian:lambda=1.5"},
    "official mask": {"learner": "er_ace:mask=official", "perturb": "vt", "batch": 2},
    "none alone": {"learner": "derpp", "perturb": "wap", "batch": 4},
    "upright": {"learner": "pass:rotations=false", "lr": 0.005},
    "cls-er": {"learner": "teacher:form=cls,rate=0.5,decay=0.8"},
    "mkd": {
        "learner": "teacher:of=derpp:alpha=0.2/beta=0.6,form=mkd,decay=0.7,weight=0.5,temperature=2",
        "perturb": "gaussian",
    },
    "a teacher of a-gem": {"learner": "teacher:of=agem,decay=0.8,weight=2"},
    "stored targets": {"learner": "bfp:targets=stored,projector_lr=0.02,weight=0.5"},
    "a simplex": {"learner": "xder:gamma=0.5,eta=0.7", "head": "simplex", "perturb": "gaussian", "tasks": 4},
    "classes that come again": {"learner": "xder", "tasks": 4, "arrival": "classes:returns=0.4"},
    "exemplars that come again": {"learner": "icarl", "head": "linear", "tasks": 4, "arrival": "classes:returns=0.4"},
    "exemplars of domains": {"learner": "icarl", "head": "linear", "tasks": 2, "arrival": "domains", "memory": 11},
    "domains": {"learner": "xder:eta=0.7", "tasks": 2, "arrival": "domains", "memory": 11},
    "concatenated": {"learner": "er:passes=concatenated"},
    "concatenated and moved": {"learner": "er:passes=concatenated", "perturb": "gaussian"},
    "few candidates": {"learner": "mir:candidates=7"},
    "three past tasks": {"learner": "gem:gamma=0.1", "tasks": 4},
    "forgets slowly": {"learner": "ewc:lambda=3,gamma=0.5", "tasks": 4},
    "mixed with new features": {"learner": "manifold_mixup:form=adapted"},
    "mixed evenly": {"learner": "manifold_mixup:alpha=1"},
    "separated and distilled": {"learner": "ssil:distil=true", "perturb": "doa_old"},
    "separated officially": {"learner": "ssil:distil=true,form=official"},
    "online": {"learner": "icarl:form=online", "head": "linear"},
    "without forgetting": {"learner": "lwf:among=seen,alpha=3"},
    "one class a task": {"learner": "lwf", "tasks": 4},
    "one rival": {"learner": "lucir:rivals=1,margin=0.9", "perturb": "gaussian"},
    "a third held out": {"learner": "bic:hold=3", "perturb": "gaussian"},
    "momentum and steps": {"optimiser": "sgd:momentum=0.9,weight_decay=0.01", "schedule": "steps:at=1", "epochs": 3},
    "one optimiser": {"optimiser": "sgd:momentum=0.9,anew=false", "schedule": "cosine:anew=false"},
    "adam and cosine": {"optimiser": "adam", "schedule": "cosine", "lr": 0.01},
    "adamw": {"optimiser": "adamw:weight_decay=0.1,beta1=0.8", "lr": 0.01, "learner": "er_ace"},
    "replay batch and linear": {"replay_batch": 4, "head": "linear"},
    "short batches": {"perturb": "add_new", "short_batch": "skip"},
    "offered once": {"offer": "once", "epochs": 3, "memory": 7, "learner": "derpp", "perturb": "vt"},
    "not augmented": {"augment": False, "model": "mlp:width=8,depth=1,features=5"},
}


def test_every_method_has_a_twin():
    assert {file.stem.rstrip("_") for file in Path(twins.__file__).parent.glob("[!_]*.py")} == set(LEARNERS.built_in)
    assert all(hasattr(Plain, f"direction_of_{name}") for name in MOVING)


@pytest.fixture(scope="module")
def plain_of(make_trainer):
    """What the plain loop makes of a method, once."""

    @cache
    def run(method):
        trainer = make_trainer(**METHODS[method])
        return twin(trainer.settings, trainer.schedule.stream).run()

    return run


@pytest.mark.parametrize("method", METHODS)
def test_equals_the_plain_loop(make_trainer, train, plain_of, method):
    trainer, plain = make_trainer(**METHODS[method]), plain_of(method)
    history = train(trainer)
    assert len(history) == len(plain.history) == trainer.schedule.steps_done
    for ours, theirs in zip(history, plain.history, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-6, rel=2e-6)
    for (name, ours), theirs in zip(
        trainer.learning.model.state_dict().items(), plain.model.state_dict().values(), strict=True
    ):
        if "num_batches" not in name:
            torch.testing.assert_close(ours, theirs, atol=5e-6, rtol=5e-6, msg=lambda m, name=name: f"{name}: {m}")
    if trainer.learning.memory is not None:
        stored = trainer.learning.memory.all()
        assert stored["y"].tolist() == [row["y"] for row in plain.memory]
        assert stored["image"].equal(torch.stack([row["image"] for row in plain.memory]))
        if trainer.learning.learner.keeps:
            torch.testing.assert_close(stored["logits"], torch.stack([row["logits"] for row in plain.memory]))


def test_the_twin_is_not_blind(plain_of):
    """Every way to differ that the comparison above must notice does change the twin."""
    weights = {tuple(plain_of(method).model.head.weight.flatten().tolist()) for method in METHODS}
    assert len(weights) == len(METHODS)


def test_the_last_batch_is_short_and_kept(make_trainer, train):
    trainer = make_trainer(epochs=1, memory=100)
    sizes = []
    original = trainer.learning.step
    trainer.learning.step = lambda raw, y: sizes.append(len(y)) or original(raw, y)
    train(trainer)
    assert sizes == [6, 6, 4, 6, 6, 5]
    assert trainer.learning.memory.offered == len(trainer.learning.memory) == 33


@pytest.mark.parametrize("passes", ["separate", "concatenated"])
def test_a_batch_of_one_sample(make_trainer, train, passes):
    """In the last stage torch's own BatchNorm would refuse the single pixel."""
    settings = {"perturb": "vt", "model": "resnet18:width=2", "batch": 1, "learner": f"er:passes={passes}"}
    history = train(make_trainer((7, 6, 7, 6), epochs=1, **settings))
    assert all(torch.isfinite(torch.tensor(list(losses.values()))).all() for losses in history)


def test_the_first_step_has_nothing_to_replay(make_trainer, train):
    history = train(make_trainer(learner="derpp"))
    assert set(history[0]) == {"new"}
    assert all(set(losses) == {"new", "logits", "replay"} for losses in history[1:])


@pytest.mark.parametrize("learner", ["er", "derpp", "er_ace"])
def test_every_sample_is_offered_once_an_epoch_and_images_are_counted(make_trainer, train, learner):
    trainer = make_trainer(learner=learner, epochs=3, memory=1000)
    train(trainer)
    stored = trainer.learning.memory.all()
    assert trainer.learning.memory.offered == 3 * 33
    times = {}
    for image in stored["image"]:
        times[bytes(image.numpy())] = times.get(bytes(image.numpy()), 0) + 1
    assert times == {bytes(image.numpy()): 3 for image in trainer.schedule.stream.train.images}
    new = 3 * 33
    # Each task has 3 batches an epoch; the memory holds 6 samples or more after the first step.
    replayed = trainer.learning.learner.draws * 6 * (2 * 3 * 3 - 1)
    assert trainer.learning.images_trained == new + replayed


def test_the_memory_holds_samples_of_the_current_task_while_it_lasts(make_trainer):
    trainer = make_trainer(epochs=1)
    steps = trainer.steps()
    next(steps)
    assert {y // 2 for y in trainer.learning.memory.all()["y"].tolist()} == {0}
    list(steps)
    trainer.next_task()
    list(trainer.steps())
    assert {y // 2 for y in trainer.learning.memory.all()["y"].tolist()} == {0, 1}


def test_stored_logits_are_those_of_insertion(make_trainer, train):
    """In training mode, of the augmented batch, before the update; never refreshed."""
    trainer = make_trainer(learner="derpp", memory=1000, epochs=1)
    seen = []
    original = trainer.learning.learner.losses
    trainer.learning.learner.losses = lambda new, *replays: (
        seen.append(new.logits.detach().clone()) or original(new, *replays)
    )
    train(trainer)
    assert trainer.learning.memory.all()["logits"].equal(torch.cat(seen))
    assert trainer.learning.memory.all()["logits"].shape == (33, 4)


def test_stored_images_are_raw(make_trainer, train):
    trainer = make_trainer(memory=1000, epochs=1)
    before = trainer.schedule.stream.train.images.clone()
    train(trainer)
    assert trainer.schedule.stream.train.images.equal(before)
    stored = sorted(bytes(i.numpy()) for i in trainer.learning.memory.all()["image"])
    assert stored == sorted(bytes(i.numpy()) for i in before)


def test_only_old_rows_are_passed_as_old_and_only_from_the_second_task_on(make_trainer):
    trainer = make_trainer(perturb="gaussian")
    calls = []
    original = trainer.learning.learner.perturbation
    trainer.learning.learner.perturbation = lambda replay, new: calls.append((replay, new)) or original(replay, new)
    list(trainer.steps())
    assert calls == []
    trainer.next_task()
    steps = len(list(trainer.steps()))
    assert len(calls) == steps == 6
    for replay, new in calls:
        assert replay.old.tolist() == [y < 2 for y in replay.y.tolist()]
        assert set(new.y.tolist()) <= {2, 3}
    assert any(not replay.old.all() for replay, _ in calls)
    assert any(replay.old.any() for replay, _ in calls)


def test_learning_rate_milestones_start_anew_with_every_task(make_trainer, train):
    trainer = make_trainer(epochs=4, lr=0.4, schedule="steps:at=1,3,by=0.5")
    rates = []
    train(
        trainer,
        lambda t: rates.append(
            (
                t.schedule.task,
                t.schedule.epoch,
                t.schedule.learning_rate,
                t.learning.optimiser.param_groups[0]["lr"].item(),
            )
        ),
    )
    expected = {0: 0.4, 1: 0.2, 2: 0.2, 3: 0.1}
    assert [r[:2] for r in rates] == [(t, e) for t in range(2) for e in range(4) for _ in range(3)]
    for _, epoch, announced, used in rates:
        assert announced == pytest.approx(expected[epoch])
        assert used == pytest.approx(expected[epoch])


def test_momentum_starts_anew_with_every_task(make_trainer):
    trainer = make_trainer(optimiser="sgd:momentum=0.9")
    list(trainer.steps())
    assert trainer.learning.optimiser.state
    trainer.next_task()
    assert not trainer.learning.optimiser.state


def test_weight_decay(make_trainer):
    plain, decayed = make_trainer(), make_trainer(optimiser="sgd:weight_decay=0.1")
    before = copy.deepcopy(plain.learning.model.state_dict())
    for trainer in (plain, decayed):
        next(trainer.steps())
    for name, parameter in plain.learning.model.named_parameters():
        expected = parameter - 0.2 * 0.1 * before[name]
        torch.testing.assert_close(decayed.learning.model.get_parameter(name), expected)


def test_a_fixed_scale_is_not_trained(make_trainer, train):
    trainer = make_trainer(head="cosine:scale=10,learnable=false")
    train(trainer)
    assert trainer.learning.model.head.scale.item() == 10


@pytest.mark.parametrize("learner", ["finetune", "joint", "er"])
def test_joint_sees_all_tasks_at_once(make_trainer, train, learner):
    trainer = make_trainer(learner=learner)
    labels = []
    original = trainer.learning.step
    trainer.learning.step = lambda raw, y: labels.append(y.tolist()) or original(raw, y)
    train(trainer)
    mixed = any(min(batch) < 2 <= max(batch) for batch in labels)
    assert mixed == (learner == "joint")
    assert sorted(y for batch in labels for y in batch) == sorted(trainer.schedule.stream.train.labels.tolist() * 2)
    assert (trainer.learning.memory is None) == (learner != "er")


@pytest.mark.parametrize(
    ("samples", "sizes"),
    [(8, [4, 4]), (9, [4, 5]), (10, [4, 4, 2]), (5, [5]), (4, [4]), (2, [2])],
    ids=str,
)
def test_no_sample_is_left_to_a_step_of_its_own(make_trainer, samples, sizes):
    """Its loss would weigh as much as that of a whole batch, at the very end of a task; it goes with those before."""
    trainer = make_trainer((samples - 1, 1), tasks=1, batch=4, epochs=2)
    schedule, came = trainer.schedule, []
    for order in schedule.epochs_left(torch.device("cpu")):
        for batch in schedule.batches_left(order):
            came.append(batch)
            schedule.advance()
    assert [len(batch) for batch in came] == 2 * sizes
    assert torch.cat(came[: len(sizes)]).sort().values.equal(schedule.current.train.sort().values)
    assert schedule.total == 2 * len(sizes)
    assert set(sizes) <= schedule.sizes


def test_batches_of_one_stay_so(make_trainer):
    assert make_trainer((3, 2), tasks=1, batch=1, epochs=1).schedule.total == 5
