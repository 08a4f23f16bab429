"""Streams: which class, which sample, in which task."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import moca
from moca import MocaError, Stream, Task, class_incremental, domain_incremental
from moca.data import Split

UNEVEN = (5, 9, 7, 12, 6, 8, 10)
ORDERS = ["natural", "random", (6, 0, 3, 1, 5, 2, 4)]


def assert_one_line(error):
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
def test_tasks_partition_classes_and_samples(make_dataset, order, tasks):
    dataset = make_dataset(UNEVEN)
    stream = class_incremental(dataset, tasks, order)
    assert len(stream) == tasks
    assert [c for task in stream for c in task.classes] == list(range(7))
    for split, original in ((stream.train, dataset.train), (stream.test, dataset.test)):
        parts = [task.train if split is stream.train else task.test for task in stream]
        assert sorted(torch.cat(parts).tolist()) == list(range(len(original)))
        for task, part in zip(stream, parts, strict=True):
            assert {split.labels[i].item() for i in part} == set(task.classes)
        assert split.images is original.images, "the images must not be copied"
        # Labels are positions in the order of arrival; through the names they are the original classes.
        assert [stream.names[c] for c in split.labels] == [dataset.classes[c] for c in original.labels]


@given(classes=st.integers(1, 12), data=st.data())
def test_sizes_differ_by_one_at_most_and_larger_tasks_come_first(make_dataset, classes, data):
    tasks = data.draw(st.integers(1, classes))
    sizes = [len(task.classes) for task in class_incremental(make_dataset((2,) * classes), tasks)]
    assert sum(sizes) == classes
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_natural_order(make_dataset):
    dataset = make_dataset(UNEVEN)
    stream = class_incremental(dataset, 3)
    assert [task.classes for task in stream] == [(0, 1, 2), (3, 4), (5, 6)]
    assert stream.names == dataset.classes
    assert stream.train.labels.equal(dataset.train.labels)
    assert stream.classes == 7


def test_given_order(make_dataset):
    dataset = make_dataset(UNEVEN)
    stream = class_incremental(dataset, 3, (6, 0, 3, 1, 5, 2, 4))
    assert stream.names[:3] == ("class 6", "class 0", "class 3")
    original = {dataset.train.labels[i].item() for i in stream[0].train}
    assert original == {6, 0, 3}
    assert {dataset.test.labels[i].item() for i in stream[2].test} == {2, 4}
    assert stream.train.labels[dataset.train.labels == 6].unique().tolist() == [0]


@pytest.mark.parametrize("made", [np.array, torch.tensor, list])
def test_an_order_may_be_an_array(make_dataset, made):
    dataset, order = make_dataset(UNEVEN), [6, 0, 3, 1, 5, 2, 4]
    assert class_incremental(dataset, 3, made(order)).names == class_incremental(dataset, 3, tuple(order)).names
    with pytest.raises(MocaError, match="exactly once"):
        class_incremental(dataset, 3, made(order[:6]))


def test_random_order_depends_on_the_seed(make_dataset):
    dataset = make_dataset((2,) * 30)
    names = [class_incremental(dataset, 3, "random", seed=s).names for s in (0, 0, 1)]
    assert names[0] == names[1] != names[2]
    assert names[0] != dataset.classes
    assert sorted(names[0]) == sorted(dataset.classes)


def test_slices_are_streams_over_the_same_data(make_dataset):
    stream = class_incremental(make_dataset(UNEVEN), 4)
    part = stream[1:3]
    assert isinstance(part, Stream)
    assert list(part) == [stream[1], stream[2]]
    assert part.train is stream.train
    assert part.classes == 7, "labels and outputs stay those of the whole data set"
    assert stream[-1] is list(stream)[3]
    assert [t.classes for t in stream[::-1]] == [t.classes for t in reversed(list(stream))]
    with pytest.raises(IndexError):
        stream[4]


@pytest.mark.parametrize("validation", [0.0, 0.25])
def test_merged_is_all_in_one_task(make_dataset, validation):
    stream = class_incremental(make_dataset(UNEVEN), 3, "random", validation)
    merged = stream.merged()
    assert len(merged) == 1
    assert merged[0].classes == tuple(range(7))
    assert merged[0].train.tolist() == [i for task in stream for i in task.train.tolist()]
    assert merged[0].test.tolist() == [i for task in stream for i in task.test.tolist()]
    assert stream[:2].merged()[0].classes == stream[0].classes + stream[1].classes


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_validation_is_a_share_of_each_class_of_the_training_data(make_dataset, order, share):
    dataset = make_dataset(UNEVEN)
    stream = class_incremental(dataset, 3, order, validation=share, seed=4)
    learn, judge = (torch.cat([getattr(t, kind) for t in stream]).tolist() for kind in ("train", "test"))
    assert set(learn).isdisjoint(judge)
    assert sorted(learn + judge) == list(range(len(dataset.train)))
    assert stream.test.images is dataset.train.images, "the test set must not be touched"
    for c, size in enumerate(UNEVEN):
        held = sum(dataset.train.labels[i].item() == c for i in judge)
        assert held == max(1, round(share * size))
    for task in stream:
        assert {stream.test.labels[i].item() for i in task.test} == set(task.classes)


def test_validation_depends_on_its_seed_alone(make_dataset):
    dataset = make_dataset((40,) * 4)

    def held(**options):
        stream = class_incremental(dataset, validation=0.5, **options)
        return sorted(torch.cat([t.test for t in stream]).tolist())

    assert held(tasks=2, seed=0) == held(tasks=4, seed=0)
    assert held(tasks=2, seed=0) != held(tasks=2, seed=1)


def test_validation_that_leaves_nothing_to_learn_is_refused(make_dataset):
    with pytest.raises(MocaError, match="leaves no training sample of class 'class 1'") as error:
        class_incremental(make_dataset((4, 1, 4)), 3, validation=0.1)
    assert_one_line(error)


@pytest.mark.parametrize("tasks", [8, 100])
def test_more_tasks_than_classes(make_dataset, tasks):
    with pytest.raises(MocaError, match=f"'toy' has 7 classes, too few for {tasks} tasks") as error:
        class_incremental(make_dataset(UNEVEN), tasks)
    assert_one_line(error)


@pytest.mark.parametrize("tasks", [0, -1])
def test_fewer_than_one_task(make_dataset, tasks):
    with pytest.raises(MocaError, match="at least 1 task") as error:
        class_incremental(make_dataset(UNEVEN), tasks)
    assert_one_line(error)


@pytest.mark.parametrize("share", [-0.1, 1.0, 2.0, float("nan")])
def test_validation_that_is_no_share(make_dataset, share):
    with pytest.raises(MocaError, match="validation") as error:
        class_incremental(make_dataset(UNEVEN), 2, validation=share)
    assert_one_line(error)


def test_an_empty_class(make_dataset):
    with pytest.raises(MocaError, match="class 'class 1' of 'toy' has no training sample") as error:
        class_incremental(make_dataset((4, 0, 4)), 3)
    assert_one_line(error)


@pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 3), ()])
def test_an_order_that_does_not_name_each_class_once(make_dataset, order):
    with pytest.raises(MocaError, match="each of the classes 0 to 2 exactly once") as error:
        class_incremental(make_dataset((4, 4, 4)), 3, order)
    assert_one_line(error)


def test_validation_holds_out_different_places_of_each_class(make_dataset):
    stream = class_incremental(make_dataset((40,) * 4), 4, validation=0.5)
    places = set()
    for c, task in enumerate(stream):
        members = (stream.train.labels == c).nonzero().squeeze(1)
        places.add(tuple(torch.isin(members, task.test).tolist()))
    assert len(places) == 4, "the classes must not share their random numbers"


class TestMistakesInPython:
    def test_numbers_of_numpy_are_numbers(self, make_dataset):
        dataset = make_dataset(UNEVEN)
        assert len(class_incremental(dataset, np.int64(3))) == 3
        assert [len(task.classes) for task in class_incremental(dataset, np.array([4, 3]))] == [4, 3]

    def test_tasks_are_sizes_not_classes(self, make_dataset):
        with pytest.raises(MocaError, match="the number of classes of each") as error:
            class_incremental(make_dataset(UNEVEN), [[0, 1], [2, 3]])
        assert_one_line(error)

    @pytest.mark.parametrize("given", ["digits", (np.zeros((4, 8, 8), np.uint8), [0, 0, 1, 1])])
    def test_what_is_no_data_set_yet(self, given):
        with pytest.raises(MocaError, match=r"moca.load\(name\) or moca.dataset") as error:
            class_incremental(given, 2)
        assert_one_line(error)


class TestMadeByHand:
    """A stream of one's own is checked where it is made."""

    def made(self, data, tasks=None, **changed):
        given = {"train": data.train, "test": data.test, "names": data.classes} | changed
        return Stream(data, (self.task(data),) if tasks is None else tasks, **given)

    def task(self, data, **changed):
        """The first two classes."""
        train, test = ((split.labels < 2).nonzero().flatten() for split in (data.train, data.test))
        return Task(**{"classes": (0, 1), "train": train, "test": test} | changed)

    def test_what_is_right_is_accepted(self, make_dataset):
        data = make_dataset((4, 4, 4))
        assert len(self.made(data)[0].train) == 8
        assert len(self.made(data, [self.task(data)] * 2)) == 2, "the same task twice"
        assert self.made(data, names=np.array(["a", "b", "c"])).names == ("a", "b", "c")
        assert self.task(data, classes=range(2)).tested == range(2)
        vectors = Split(torch.zeros(12, 5, 1, 1), data.train.labels), Split(torch.zeros(9, 5, 1, 1), data.test.labels)
        wide = replace(data, train=vectors[0], test=vectors[1])
        assert self.made(wide).shape == (5, 1, 1)

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"classes": ("cat", "dog")}, r"classes of task 1 are class numbers, positions in the 3 names, such as"),
            ({"classes": (0, 3)}, "class numbers, positions in the 3 names"),
            ({"classes": 2}, "class numbers, positions in the 3 names"),
            ({"classes": (0,)}, r"train of task 1 has samples of class 1, but its classes are \(0,\); add it"),
            ({"tested": (1,)}, r"test of task 1 has samples of class 0, but its classes are \(1,\)"),
            ({"train": [0, 1]}, r"train of task 1 is a tensor of indices, int64 of \(n,\), not a list"),
            ({"train": torch.tensor([0.0])}, r"int64 of \(n,\), not float32 of \(1,\)"),
            ({"test": torch.tensor([0, 9])}, "test of task 1 has indices from 0 to 9, but there are 9 samples"),
            ({"train": torch.tensor([-1])}, "has indices from -1 to -1"),
            ({"train": torch.ones(12, dtype=torch.bool)}, r"is a mask; give the indices: mask.nonzero\(\).flatten\(\)"),
            ({"train": torch.arange(0)}, "task 1 has no training sample; give it some, or leave it out"),
        ],
    )
    def test_mistakes_in_a_task(self, make_dataset, change, says):
        data = make_dataset((4, 4, 4))
        with pytest.raises(MocaError, match=says) as error:
            self.made(data, [self.task(data, **change)])
        assert_one_line(error)

    def test_mistakes_in_a_stream(self, make_dataset):
        data = make_dataset((4, 4, 4))
        images, labels = data.train.images, data.train.labels
        wrong = {
            "float32 of (12, 1, 4, 4); moca.dataset((images, labels)) makes": {"train": Split(images / 255, labels)},
            "bytes from 0 to 255, uint8 of (n, channels, height, width)": {"test": Split(images[:, 0], labels)},
            "not a ndarray": {"train": Split(images.numpy(), labels)},
            "are (1, 2, 4), and those of the stream's data set (1, 4, 4)": {"train": Split(images[:, :, :2], labels)},
            "labels of train are class numbers, int64 of (12,)": {"train": Split(images, labels.float())},
            "one for each image, not int64 of (11,)": {"train": Split(images, labels[:-1])},
            "not a list": {"train": Split(images, labels.tolist())},
            "labels of train are 0 to 2, but must be positions in the 2 names": {"names": ("a", "b")},
            "train of a stream is a moca.data.Split(images, labels), not a tuple": {"train": (images, labels)},
            "task 1 of a stream is a moca.Task(classes, train, test), not a tuple": {"tasks": [((0, 1), [0], [0])]},
        }
        for says, changed in wrong.items():
            with pytest.raises(MocaError, match=re.escape(says)) as error:
                self.made(data, **changed)
            assert_one_line(error)
        with pytest.raises(MocaError, match=r"a stream is over a moca\.Dataset") as error:
            Stream("digits", [], data.train, data.test, data.classes)

    def test_a_run_needs_a_task_and_test_samples_of_each(self, make_dataset):
        data = make_dataset((4, 4, 4))
        stream = self.made(data)
        with pytest.raises(MocaError, match="a stream without a task; a run needs at least one") as error:
            moca.run(data=stream[5:])
        assert_one_line(error)
        untested = self.made(data, [self.task(data), self.task(data, test=torch.arange(0))])
        with pytest.raises(MocaError, match="task 2 of the stream has no test sample; give it some") as error:
            moca.run(data=untested)
        assert_one_line(error)


def test_all_in_one_task_is_tested_on_what_the_tasks_are(make_dataset):
    """A class may be tested in a task that has none of its training samples, if boundaries are blurred."""
    stream = class_incremental(make_dataset((4, 4, 4)), 3)
    late = stream.with_tasks([replace(stream[0], train=stream[1].train, classes=(1,)), *stream[1:]])
    assert late[:2].merged()[0].tested == (0, 1)


class TestDomainIncremental:
    def test_tasks_are_the_data_sets(self, make_dataset):
        sets = [make_dataset((4, 5, 6)), make_dataset((7, 2, 3), test_counts=(1, 2, 3))]
        stream = domain_incremental(one for one in sets)
        assert [task.classes for task in stream] == [(0, 1, 2)] * 2
        assert stream.names == sets[0].classes
        for task, one in zip(stream, sets, strict=True):
            for index, ours, theirs in ((task.train, stream.train, one.train), (task.test, stream.test, one.test)):
                assert ours.images[index].equal(theirs.images)
                assert ours.labels[index].equal(theirs.labels)
        assert len(stream.dataset.protocol.tasks) == 2, "on which the recipe's epochs depend"

    def test_a_task_may_lack_a_class(self, make_dataset):
        whole = make_dataset((4, 4, 4))
        kept = whole.train.labels != 1
        stream = domain_incremental(
            [whole, replace(whole, train=Split(whole.train.images[kept], whole.train.labels[kept]))]
        )
        assert (stream[1].classes, stream[1].tested) == ((0, 2), (0, 1, 2))

    def test_a_run_is_told_when_any_of_the_data_sets_has_changed(self, make_dataset):
        one, other = (replace(make_dataset(), fingerprint=of) for of in "ab")
        prints = {domain_incremental(sets).dataset.fingerprint for sets in ([one, one], [one, other], [other, one])}
        assert len(prints) == 3
        assert domain_incremental([one, make_dataset()]).dataset.fingerprint == ""

    def test_a_run_learns_them_one_after_the_other(self, make_dataset, tmp_path):
        stream = domain_incremental([make_dataset((20, 20)), make_dataset((20, 21))])
        result = moca.run(data=stream, perturb="gaussian", epochs=2, out=tmp_path / "a", memory=10)
        assert result.task_classes == [2, 2]
        assert np.shape(result.accuracy_matrix) == (3, 2)
        assert result.accuracy_matrix == result.task_il_matrix, "every task has all classes"

    def test_mistakes(self, make_dataset):
        one = make_dataset((4, 4))
        wrong = {
            "takes moca.Dataset objects, one for each task": ([], one, [one, "digits"], 3),
            "data set 2 has other classes than the first": ([one, make_dataset((4, 4, 4))],),
            "data set 3 and the first have samples of 1x5x5 and 1x4x4": ([one, one, make_dataset((4, 4), side=5)],),
        }
        for says, several in wrong.items():
            for sets in several:
                with pytest.raises(MocaError, match=says) as error:
                    domain_incremental(sets)
                assert_one_line(error)

    @pytest.mark.parametrize("form", ["pairs", "sets"])
    def test_several_data_sets_given_as_one_are_told(self, make_dataset, form):
        pair = np.zeros((8, 4, 4), np.uint8), np.arange(8) % 2
        with pytest.raises(MocaError, match=r"; for one data set for each task, give moca.domain_incremental") as error:
            moca.run(data={"pairs": [pair, pair, pair], "sets": [make_dataset()] * 2}[form])
        assert_one_line(error)
