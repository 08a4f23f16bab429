"""Streams that are no clean sequence of tasks: rare classes, samples that come back, blurred boundaries, domains."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from moca import MocaError, class_incremental
from moca.arrivals import arriving, blurred, domains, imbalanced, returning
from moca.settings.arrival import Arrival
from moca.settings.base import parse
from tests.engine.conftest import make_trainer

__all__ = ["make_trainer"]

COUNTS = (40, 40, 40, 40, 40, 40)


@pytest.fixture(scope="module")
def stream(make_dataset):
    return class_incremental(make_dataset(COUNTS), 3)


def counts(stream):
    """Training samples of each class in each task."""
    return [Counter(stream.train.labels[task.train].tolist()) for task in stream]


def everything(stream):
    return sorted(torch.cat([task.train for task in stream]).tolist())


def test_by_default_nothing_changes(stream):
    assert arriving(stream, Arrival()) is stream


class TestImbalanced:
    @given(ratio=st.floats(0.01, 1, exclude_max=True), seed=st.integers(0, 100))
    def test_classes_decline_geometrically(self, stream, ratio, seed):
        made = imbalanced(stream, ratio, seed)
        sizes = sorted((size for task in counts(made) for size in task.values()), reverse=True)
        assert sizes == [max(1, round(40 * ratio ** (rank / 5))) for rank in range(6)]
        assert [task.classes for task in made] == [task.classes for task in stream]
        assert all(ours.test is theirs.test for ours, theirs in zip(made, stream, strict=True))

    def test_which_are_rare_is_drawn(self, stream):
        rarest = set()
        for seed in range(20):
            sizes = {c: size for task in counts(imbalanced(stream, 0.1, seed)) for c, size in task.items()}
            rarest.add(min(sizes, key=sizes.get))
        assert len(rarest) > 2


class TestReturning:
    @given(share=st.floats(0.01, 0.99), seed=st.integers(0, 100))
    def test_a_share_comes_later_and_never_before(self, stream, share, seed):
        made = returning(stream, share, seed)
        assert everything(made) == everything(stream), "each sample comes once"
        for number, (task, own) in enumerate(zip(counts(made), stream, strict=True)):
            last = number == len(made) - 1
            assert all(task[c] == 40 - (0 if last else min(round(share * 40), 39)) for c in own.classes)
            assert max(task) <= own.classes[-1], "no class before its own task"

    def test_a_task_names_what_comes_and_is_judged_on_its_own(self, stream):
        made = returning(stream, 0.5)
        assert [task.tested for task in made] == [(0, 1), (2, 3), (4, 5)]
        assert [task.classes for task in made] == [(0, 1), (2, 3, 0, 1), (4, 5, 0, 1, 2, 3)]
        assert all(set(task.classes) == set(seen) for task, seen in zip(made, counts(made), strict=True))

    def test_later_tasks_are_equally_likely(self, make_dataset):
        made = returning(class_incremental(make_dataset((2000, 10, 10)), 3), 0.5)
        assert counts(made)[1][0] == pytest.approx(500, abs=60)


class TestBlurred:
    @given(width=st.floats(0.01, 5), seed=st.integers(0, 100))
    def test_samples_are_moved_and_none_is_lost(self, stream, width, seed):
        made = blurred(stream, width, seed)
        assert everything(made) == everything(stream)
        assert [len(task.train) for task in made] == [len(task.train) for task in stream]
        assert all(set(task.classes) == set(seen) for task, seen in zip(made, counts(made), strict=True))
        assert [task.tested for task in made] == [(0, 1), (2, 3), (4, 5)]

    def test_how_many_cross_a_boundary(self, make_dataset):
        """Of two tasks, P(u + w z > 1) = w / sqrt(2 pi) of the first one's samples for small widths w."""
        made = blurred(class_incremental(make_dataset((20_000, 20_000)), 2), 0.2)
        assert counts(made)[1][0] / 20_000 == pytest.approx(0.2 / (2 * torch.pi) ** 0.5, abs=0.005)

    def test_neighbours_come_before_those_far_away(self, stream):
        made = counts(blurred(stream, 0.3))
        assert made[1][0] + made[1][1] > made[2][0] + made[2][1]


class TestDomains:
    def test_a_class_is_known_by_its_position(self, stream):
        made = domains(stream)
        assert made.classes == 2
        assert made.names == ("class 0/class 2/class 4", "class 1/class 3/class 5")
        assert [task.classes for task in made] == [(0, 1)] * 3
        assert made.train.labels.equal(stream.train.labels % 2)
        assert made.test.labels.equal(stream.test.labels % 2)
        assert [task.train for task in made] == [task.train for task in stream]

    def test_tasks_must_be_alike(self, make_dataset):
        with pytest.raises(MocaError, match=r"equally many classes \(here 1, 2\); set tasks"):
            domains(class_incremental(make_dataset((4, 4, 4)), 2))


def test_all_of_it_together_is_written_in_one_setting(stream):
    how = Arrival(**parse("domains:blur=0.2,returns=0.3,imbalance=0.5", "by"))
    made = arriving(stream, how, seed=3)
    assert len(everything(made)) < len(everything(stream))
    assert made.classes == 2
    assert everything(made) == everything(arriving(stream, how, seed=3))
    assert everything(made) != everything(arriving(stream, how, seed=4))


def test_a_run_over_classes_that_come_back_counts_them_as_old(make_trainer, stream):
    trainer = make_trainer(stream=returning(stream, 0.5), epochs=1, perturb="gaussian")
    list(trainer.steps())
    trainer.next_task()
    learner = trainer.learning.learner
    assert learner.current.tolist() == [True] * 4 + [False] * 2
    assert learner.old.tolist() == [True] * 2 + [False] * 4
    list(trainer.steps())
