"""Re-weighting: what the weights are, and that equal ones leave ER as it is."""

import pytest
import torch

from moca.learners.er import ER
from moca.learners.reweight import Reweight
from moca.memory import Memory, Reservoir, Uniform
from moca.random import Random
from tests.learners.conftest import CLASSES, task


@pytest.fixture
def learner(model):
    """In its second task, of 12 samples; with a memory of these labels."""

    def make(stored=(), size=8, samples=12, **given):
        memory = Memory(size, Reservoir(size, Random(0, "store")), Uniform(Random(0, "draw")))
        made = Reweight().attach(model, CLASSES, memory=memory, **given)
        for classes in ((0, 1), (2, 3)):
            made.begin_task(task(*classes, train=range(samples)))
        if stored:
            memory.add(y=torch.tensor(stored))
        return made

    return make


def surprises(slow, batch):
    """The cross-entropy of each sample."""
    return [slow.cross_entropy(batch.features[i : i + 1], batch.y[i : i + 1]) for i in range(len(batch.y))]


def weighted(slow, *batches, weight):
    pairs = [(weight[y], ce) for b in batches for y, ce in zip(b.y.tolist(), surprises(slow, b), strict=True)]
    return len(batches) * sum(w * ce for w, ce in pairs) / sum(w for w, _ in pairs)


def test_a_weighted_mean_over_new_and_replayed_samples(learner, make_batch, slow):
    """Of 12 new samples one in four is of class 2; of 0 the memory has three, of 1 and 2 one each."""
    one = learner([0, 1, 0, 2, 0])
    new, replay = make_batch([2, 3, 3, 3]), make_batch([0, 1, 2, 0], seed=1)
    losses = one.losses(new, replay)
    expected = weighted(slow, new, replay, weight={0: 1 / 3, 1: 1, 2: 1 / (3 + 1), 3: 1 / 9})
    assert set(losses) == {"new", "replay"}
    assert sum(losses.values()).item() == pytest.approx(expected, rel=1e-5)


def test_each_term_is_its_own_share(learner, make_batch):
    one = learner([0, 1])
    new, replay = make_batch([2, 3]), make_batch([0, 1], seed=1)
    losses = one.losses(new, replay)
    for term, batch in (("new", replay), ("replay", new)):
        (slope,) = torch.autograd.grad(losses[term], batch.features, retain_graph=True, allow_unused=True)
        assert slope is None


def test_counts_follow_what_came_in_the_task(learner, make_batch):
    one = learner([0, 0, 1])
    one.losses(make_batch([2, 2, 2, 3]))
    assert one._counts().tolist() == pytest.approx([2, 1, 9, 3, 0, 0])
    one.losses(make_batch([3, 3, 3, 3]))
    assert one._counts().tolist() == pytest.approx([2, 1, 4.5, 7.5, 0, 0])
    one.begin_task(task(4, train=range(5)))
    one.losses(make_batch([4, 4]))
    assert one._counts().tolist() == pytest.approx([2, 1, 0, 0, 5, 0]), "an earlier task counts by its stored samples"


def test_a_full_memory_counts_what_it_holds_and_nothing_else(learner):
    """The row behind the last slot takes what is dropped."""
    one = learner([0] * 4 + [1] * 4 + [2] * 9, size=8)
    one.came_now[3] = 1
    stored = one.memory.all()["y"].tolist()
    assert one._counts().tolist() == pytest.approx([stored.count(0), stored.count(1), stored.count(2), 12, 0, 0])


def test_equal_classes_are_er(learner, attached, make_batch):
    one, er = learner([0] * 3 + [1] * 3, samples=6), attached(ER(), (0, 1), (2, 3))
    new, replay = make_batch([2, 3, 3, 2]), make_batch([0, 1, 1, 0], seed=1)
    for name, loss in er.losses(new, replay).items():
        assert one.losses(new, replay)[name].item() == pytest.approx(loss.item(), rel=1e-5)


def test_without_a_memory_yet_it_is_a_weighted_mean_of_the_new(learner, make_batch, slow):
    new = make_batch([2, 3, 3])
    losses = learner().losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(weighted(slow, new, weight={2: 1 / 4, 3: 1 / 8}), rel=1e-5)


def test_replayed_samples_are_perturbed(learner, make_batch, slow, recorder):
    one = learner([0, 1, 2], perturbation=recorder)
    new, replay = make_batch([2, 3]), make_batch([0, 2, 1], seed=1, old=[True, False, True])
    losses = one.losses(new, replay)
    replay.features = replay.features.detach() + torch.tensor([[1.0], [0.0], [1.0]])
    expected = weighted(slow, new, replay, weight={0: 1, 1: 1, 2: 1 / 7, 3: 1 / 6})
    assert sum(losses.values()).item() == pytest.approx(expected, rel=1e-5)
