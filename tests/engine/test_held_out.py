"""Samples held out to adjust by: which they are, that nothing learns from them, and what is fitted to them."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from moca import MocaError
from moca.engine.held_out import HeldOut, _rank, fitted, holding_out
from moca.parts import LEARNERS
from moca.random import Random
from moca.settings.choice import choice_of
from moca.streams import class_incremental
from tests.engine.test_reproducible import assert_identical, through_a_file

AUTO = {"learner": "er:adjust=auto", "memory": 20}
COUNTS = (20, 35, 70, 9)


def test_a_tenth_of_each_class_and_at_most_five(make_dataset):
    stream = class_incremental(make_dataset(COUNTS), 2)
    er = LEARNERS.find("er")
    held = holding_out(stream, er(adjust="auto"), 3)
    for before, after in zip(stream, held, strict=True):
        assert torch.cat([after.train, after.held]).sort().values.equal(before.train.sort().values)
        assert after.test.equal(before.test)
    labels = stream.train.labels
    assert [labels[task.held].bincount(minlength=4).tolist() for task in held] == [[2, 3, 0, 0], [0, 0, 5, 0]]
    again, other = (holding_out(stream, er(adjust="auto"), seed) for seed in (3, 4))
    assert all(task.held.equal(same.held) for task, same in zip(held, again, strict=True))
    assert not held[1].held.equal(other[1].held)
    assert holding_out(stream, er(adjust=1.0), 3) is stream


def test_nothing_learns_from_them(make_trainer, train):
    trainer, seen = make_trainer((20, 20, 20, 20), **AUTO), set()
    transform = trainer.learning.transform

    def look(raw):
        seen.update(image.numpy().tobytes() for image in raw)
        return transform(raw)

    look.random = transform.random
    trainer.learning.transform = trainer.learning.learner.augment = look
    train(trainer)
    images = trainer.feed.images
    learnt, held = (
        {images[i].numpy().tobytes() for task in trainer.schedule.tasks for i in getattr(task, name)}
        for name in ("train", "held")
    )
    assert len(held) == 8
    assert seen == learnt
    assert not seen & held


def test_they_take_a_tenth_of_the_memory_and_every_class_has_as_many(make_trainer, train):
    trainer = make_trainer((50, 50, 50, 50), learner="er:adjust=auto", memory=60)
    train(trainer)
    assert trainer.learning.memory.size == 54
    assert sorted(trainer.learning.held.y.bincount().tolist()) == [1, 1, 2, 2]


def test_of_more_classes_than_there_is_room_for_chance_keeps_some(make_trainer, train):
    kept = []
    for seed in range(4):
        trainer = make_trainer((20, 20, 20, 20), learner="er:adjust=auto", memory=20, seed=seed)
        train(trainer)
        kept.append(tuple(sorted(trainer.learning.held.y.tolist())))
    assert all(len(set(classes)) == 2 for classes in kept)
    assert len(set(kept)) > 1


def test_of_a_memory_that_holds_everything_they_take_nothing(make_trainer):
    trainer = make_trainer((20, 20, 20, 20), learner="er:adjust=auto", memory=200, epochs=1)
    assert trainer.learning.memory.size == 72


def test_a_memory_of_one_sample_has_no_room_for_them(make_trainer):
    with pytest.raises(MocaError, match="use a memory of 2 or more"):
        make_trainer(learner="er:adjust=auto", memory=1)


def test_where_none_can_be_spared_it_is_1_before_and_after_a_checkpoint(make_trainer, train):
    trainer, again = (make_trainer((8, 8, 9, 8), **AUTO) for _ in range(2))
    train(trainer)
    again.load_state_dict(through_a_file(trainer.state_dict()))
    assert trainer.learning.learner.adjusts_by == again.learning.learner.adjusts_by == 1


def test_a_task_of_which_none_was_held_out_is_adjusted_by_those_of_before(make_trainer):
    trainer = make_trainer((20, 20, 20, 20), learner="er:adjust=auto", memory=200, epochs=1)
    held, schedule = trainer.learning.held, trainer.schedule
    for last in (False, True):
        list(trainer.steps())
        trainer.end_task()
        assert last or trainer.next_task()
    fit, held.multiple = held.multiple, 9.0
    schedule.tasks = [replace(task, held=task.held[:0]) for task in schedule.tasks]
    trainer.end_task()
    assert trainer.learning.learner.adjusts_by == held.multiple == pytest.approx(fit)
    assert len(held.y) == 8


def test_ranks_by_hand():
    assert _rank(torch.tensor([2, 0, 2, 2, 0])).tolist() == [0, 0, 1, 2, 1]


ALL = torch.ones(5, dtype=torch.bool)


def scored(n=40, classes=5, seed=0):
    """Scores, labels, and a lead of the last two classes."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % classes
    scores = 2 * torch.randn(n, classes, generator=random) + 3 * F.one_hot(y, classes)
    return scores, y, torch.tensor([0, 0, 0, 1.5, 1.5])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("samples", "shares"), [((4, 1, 1, 1, 1), (1, 1, 1, 1, 1)), ((0, 1, 2, 1, 0), (0, 1.5, 1.5, 2, 0))]
)
def test_most_likely_with_every_class_counting_the_same_and_1_expected(seed, samples, shares):
    """Classes have so many times eight samples; those without any are stood for by others, old or new as they are."""
    scores, y, lead = scored(seed=seed)
    rows = torch.cat([torch.nonzero(y == c).flatten().repeat(times) for c, times in enumerate(samples)])
    scores, y = scores[rows], y[rows]
    weight = torch.tensor(shares) / y.bincount(minlength=5).clamp_min(1)
    worth = weight[y].sum() ** 2 / weight[y].square().sum()
    grid = torch.linspace(-4, 4, 8001)
    losses = torch.stack([worth * F.cross_entropy(scores - a * lead, y, weight) + (a - 1) ** 2 / 2 for a in grid])
    assert fitted(scores, y, lead, ALL) == pytest.approx(float(grid[losses.argmin()]), abs=0.01)


def test_classes_that_were_not_seen_do_not_count():
    scores, y, lead = scored(15, classes=6)
    rows, seen = y < 5, torch.arange(6) < 5
    known = fitted(scores[rows, :5], y[rows], lead, ALL)
    assert fitted(scores[rows], y[rows], F.pad(lead, (0, 1)), seen) == known


def test_what_is_added_to_new_classes_is_taken_back_by_many_samples():
    scores, y, lead = scored(4000)
    assert fitted(scores + 3.0 * lead, y, lead, ALL) == pytest.approx(fitted(scores, y, lead, ALL) + 3.0, abs=0.01)


def test_few_samples_leave_it_near_1():
    scores, y, lead = scored(5)
    assert 1 < fitted(scores + 9.0 * lead, y, lead, ALL) < 9
    certain = torch.tensor([[50.0, 0, 0, 0, 0], [0, 0, 0, 50, 0]])
    assert fitted(certain, torch.tensor([0, 3]), lead, ALL) == pytest.approx(1, abs=1e-3), "they say nothing"


@pytest.mark.parametrize(
    ("learner", "expected"), [("er", 1), ("er_ace", 0), ("ssil", 0), ("bic", 0), ("xder", 0), ("teacher:of=er_ace", 0)]
)
def test_what_is_expected_is_the_learners(make_trainer, learner, expected):
    adjusted = f"{learner}{',' if ':' in learner else ':'}adjust=auto"
    trainer = make_trainer((20, 20, 20, 20), learner=adjusted, memory=20)
    assert trainer.learning.held.multiple == trainer.learning.learner.adjusts_by == expected


@pytest.mark.parametrize("wanted", [(0, 1, 2), (3, 4)])
def test_nothing_is_fitted_to_old_or_new_classes_alone(wanted):
    scores, y, lead = scored()
    rows = torch.isin(y, torch.tensor(wanted))
    assert fitted(scores[rows], y[rows], lead, ALL) is None


def test_predictions_lose_what_was_fitted(make_trainer, train):
    trainer = make_trainer((40, 40, 40, 40), **AUTO)
    train(trainer)
    learning, held = trainer.learning, trainer.learning.held
    x = learning.learner.view(trainer.feed.images[:9])
    assert held.multiple != 0
    expected = learning.learner.predict(x) - held.multiple * learning.learner.lead
    torch.testing.assert_close(learning.predict(x), expected)


def test_goes_on_from_a_checkpoint(make_trainer, train):
    whole, begun = (make_trainer((30, 30, 30, 30), **AUTO) for _ in range(2))
    train(whole)
    for _ in begun.steps():
        pass
    begun.end_task()
    begun.next_task()
    resumed = make_trainer((30, 30, 30, 30), **AUTO)
    resumed.load_state_dict(through_a_file(begun.state_dict()))
    train(resumed)
    assert resumed.learning.held.multiple == whole.learning.held.multiple == whole.learning.learner.adjusts_by
    assert_identical(resumed.state_dict(), whole.state_dict())


def test_a_class_is_forgotten_by_them_too():
    held = HeldOut(30, Random(0, "held"), 1.0)
    held.images, held.y = torch.arange(5), torch.tensor([0, 1, 2, 1, 3])
    held.forget(1)
    assert held.images.tolist() == [0, 2, 4]
    assert held.y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("learner", ["finetune", "ewc", "pass", "teacher:of=finetune"])
def test_without_a_memory_there_is_nowhere_to_keep_them(learner):
    with pytest.raises(MocaError, match=r"adjust=auto needs a memory, .* has none; give a number"):
        choice_of(LEARNERS, f"{learner}{',' if ':' in learner else ':'}adjust=auto").make()
