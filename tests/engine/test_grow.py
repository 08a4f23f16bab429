"""Classes that were not known before: the head, the optimiser, counters, class means and stored logits make room."""

import pytest
import torch

from moca.streams import Task
from tests.engine.methods import MOST
from tests.engine.test_reproducible import assert_identical, through_a_file

GROWING = {name: method for name, method in MOST.items() if name != "joint"} | {
    "momentum": {"optimiser": "sgd:momentum=0.9,anew=false"},
    "adam": {"optimiser": "adam:anew=false", "lr": 0.01},
    "icarl online": {"learner": "icarl:form=online"},
    "linear": {"head": "linear", "perturb": "vt"},
}


def batches(trainer, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(4):
        y = torch.randint(len(classes), (6,), generator=generator)
        yield torch.randint(0, 256, (6, 1, 4, 4), dtype=torch.uint8, generator=generator), torch.tensor(classes)[y]


def learn(learning, classes, seed=0):
    learning.begin_task(Task(tuple(classes), torch.arange(24), torch.arange(0)))
    losses = []
    for raw, y in batches(learning, classes, seed):
        losses.append({k: v.item() for k, v in learning.step(raw, y).losses.items()})
    from moca import Batch

    images = [raw for raw, _ in batches(learning, classes, seed)]
    labels = [y for _, y in batches(learning, classes, seed)]
    learning.end_task(Batch(image=torch.cat(images), y=torch.cat(labels)))
    return losses


@pytest.mark.parametrize("method", GROWING)
def test_learning_goes_on_with_more_classes_and_so_does_a_state_that_has_them(make_trainer, method):
    learning = make_trainer(**GROWING[method]).learning
    learn(learning, [0, 1])
    before = learning.model.head.weight[:4].detach().clone()
    x = torch.randn(5, 1, 4, 4)
    known = learning.model.eval()(x)[:, :4].detach().clone()
    learning.model.train()
    learning.grow(7)
    assert learning.classes == len(learning.learner.seen) == 7
    assert len(learning.model.head.weight) == 7 * learning.learner.outputs
    assert learning.model.head.weight[:4].equal(before), "what was learnt stays"
    torch.testing.assert_close(learning.model.eval()(x)[:, :4], known)
    learning.model.train()
    losses = learn(learning, [4, 5, 6], seed=1)
    assert all(torch.isfinite(torch.tensor(list(step.values()))).all() for step in losses)
    assert not learning.model.head.weight[4:].equal(torch.zeros(3, before.shape[1]))
    assert learning.predict(x).shape == (5, 7)
    assert {id(p) for group in learning.optimiser.param_groups for p in group["params"]} == {
        id(p) for p in learning.model.parameters()
    }, "the optimiser trains the parameters that there are now"
    state = through_a_file(learning.state_dict())
    expected = learn(learning, [2, 3], seed=2)
    other = make_trainer(**GROWING[method]).learning
    other.load_state_dict(state)
    assert learn(other, [2, 3], seed=2) == expected
    assert_identical(other.state_dict(), learning.state_dict())


def test_momentum_of_old_classes_is_kept_and_that_of_new_ones_is_zero(make_trainer):
    learning = make_trainer(optimiser="sgd:momentum=0.9,anew=false").learning
    learn(learning, [0, 1])
    head = learning.model.head.weight
    before = learning.optimiser.state[head]["momentum_buffer"].clone()
    learning.grow(6)
    after = learning.optimiser.state[learning.model.head.weight]["momentum_buffer"]
    assert after[:4].equal(before)
    assert not after[4:].any()
    body = next(learning.model.encoder.parameters())
    assert learning.optimiser.state[body]["momentum_buffer"].any()


def test_stored_logits_of_classes_to_come_are_zero(make_trainer):
    learning = make_trainer(learner="derpp").learning
    learn(learning, [0, 1])
    before = learning.memory.all()["logits"].clone()
    learning.grow(6)
    after = learning.memory.all()["logits"]
    assert after[:, :4].equal(before)
    assert after.shape[1] == 6
    assert not after[:, 4:].any()


def test_the_new_rows_depend_on_the_seed_alone(make_trainer):
    rows = []
    for _ in range(2):
        learning = make_trainer().learning
        torch.rand(3)
        learning.grow(6)
        rows.append(learning.model.head.weight[4:].detach().clone())
    assert rows[0].equal(rows[1])


@pytest.mark.parametrize("learner", ["lwf", "teacher:form=cls"])
def test_copies_of_the_network_grow_with_its_own_rows(make_trainer, learner):
    learning = make_trainer(learner=learner).learning
    copies = getattr(learning.learner, "teachers", None) or [learning.learner.teacher]
    learn(learning, [0, 1])
    before, drawn = [copy.head.weight.clone() for copy in copies], torch.get_rng_state()
    learning.grow(6)
    for copy, known in zip(copies, before, strict=True):
        assert copy.head.weight[:4].equal(known)
        assert copy.head.weight[4:].equal(learning.model.head.weight[4:])
        assert not copy.head.weight.requires_grad
    assert torch.get_rng_state().equal(drawn), "random numbers of others are left alone"


def test_fewer_classes_are_no_growth(make_trainer):
    learning = make_trainer().learning
    head = learning.model.head.weight
    learning.grow(3)
    assert learning.model.head.weight is head
