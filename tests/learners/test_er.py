"""ER: two means in two passes, or one mean over both."""

import pytest

from moca.learners.er import ER
from moca.parts import PERTURBATIONS


@pytest.fixture
def learner(attached):
    return lambda passes="separate", **given: attached(ER(passes=passes), (0, 1), (2, 3), **given)


def test_two_means(learner, make_batch, slow):
    new, replay = make_batch([2, 3, 3]), make_batch([0, 1, 2, 0, 3], seed=1)
    losses = learner().losses(new, replay)
    assert set(losses) == {"new", "replay"}
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)


@pytest.mark.parametrize("replayed", [[0], [0, 1, 2, 0, 3, 1, 1]])
def test_one_mean_over_both(learner, make_batch, slow, replayed):
    new, replay = make_batch([2, 3, 3]), make_batch(replayed, seed=1)
    losses = learner("concatenated").losses(new, replay)
    both = 3 * slow.cross_entropy(new.features, new.y)
    both += len(replayed) * slow.cross_entropy(replay.features, replay.y)
    assert sum(losses.values()).item() == pytest.approx(both / (3 + len(replayed)), rel=1e-5)


@pytest.mark.parametrize("passes", ["separate", "concatenated"])
def test_with_an_empty_memory_only_new_data_count(learner, make_batch, slow, passes):
    new = make_batch([2, 3, 3])
    losses = learner(passes).losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_replay_is_perturbed_and_new_data_are_not(learner, make_batch, slow, recorder):
    old = [True, False, True]
    new, replay = make_batch([2, 3, 3]), make_batch([0, 2, 1], seed=1, old=old)
    losses = learner(perturbation=recorder).losses(new, replay)
    moved = replay.features.detach().clone()
    moved[[0, 2]] += 1
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(moved, replay.y), rel=1e-5)


def test_gradients_reach_both_batches(learner, make_batch):
    new, replay = make_batch([2, 3]), make_batch([0, 1, 2], seed=1)
    sum(learner().losses(new, replay).values()).backward()
    assert new.features.grad.abs().min() > 0
    assert replay.features.grad.abs().min() > 0


def test_one_pass_is_one_batch_for_batchnorm():
    assert ER(passes="concatenated").together
    assert not ER().together


OFFICIAL = {
    "none": ("nbb", "nbbb", "nbbb"),
    "wap": ("nb", "nbb", "nbb"),
    "vt": ("nb", "nbb", "nbb"),
    "vmf": ("nb", "nbb", "nbb"),
    "doa_old": ("nb", "nbbb", "nbb"),
    "gaussian": ("nb", "nbbn", "nbb"),
    "doa_new": ("nb", "nbbn", "nbb"),
    "add_new": ("nb", "nbbn", "nbb"),
    "minus_new": None,
    "fgsm": None,
    "mrfa": None,
}
"""In the first task, from the second on, and there in a short batch, which is not perturbed. None: not in that code."""


@pytest.mark.parametrize("name", PERTURBATIONS.built_in)
def test_the_official_passes(name):
    passes = ER().official_passes(PERTURBATIONS.find(name)())
    if OFFICIAL[name] is None:
        assert passes is None
    else:
        assert (passes.first_task, passes.later, passes.unperturbed) == OFFICIAL[name]
        assert passes.without_replay == "n"


def test_one_pass_has_no_official_passes():
    assert ER(passes="concatenated").official_passes(PERTURBATIONS.find("wap")()) is None


@pytest.mark.parametrize(
    ("name", "share"),
    [("none", 0.79), ("wap", 0.70), ("vt", 0.70), ("vmf", 0.70), ("doa_old", 0.79), ("gaussian", 0.50)],
)
def test_the_replay_batch_s_share_of_the_running_statistics(name, share):
    """That the official passes give, in steps without number; the table has two digits."""
    running = 0.0
    for _ in range(200):
        for role in ER().official_passes(PERTURBATIONS.find(name)()).later:
            running = 0.9 * running + 0.1 * (role == "b")
    assert running == pytest.approx(share, abs=0.005)
