"""Streams: the sequence of tasks in which classes arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import overload

import torch
from torch import Tensor

from moca.data import Dataset, Split
from moca.data.protocol import Protocol, deal
from moca.errors import MocaError
from moca.random import Random
from moca.stream_checks import refuse_unfit


@dataclass(frozen=True, repr=False)
class Task:
    """One task: its classes, training samples and test samples, as indices."""

    classes: tuple[int, ...]
    """The classes in its training samples."""
    train: Tensor
    """Training samples, as indices into `Stream.train`."""
    test: Tensor
    """Test samples, as indices into `Stream.test`."""
    tested: tuple[int, ...] = ()
    """The classes that it is tested on; by default `classes`."""
    held: Tensor = field(default_factory=lambda: torch.arange(0))
    """Training samples held out for `adjust=auto`: used after the task, never for training."""

    def __post_init__(self) -> None:
        if not self.tested:
            object.__setattr__(self, "tested", self.classes)

    def __repr__(self) -> str:
        classes = ", ".join(map(str, self.classes))
        return f"Task of {len(self.train)} training and {len(self.test)} test samples, classes: {classes}"


class Stream(Sequence[Task]):
    """A sliceable sequence of tasks over one data set; a label is a class's position in the order of arrival.

    Args:
        dataset: The data set.
        tasks: The tasks, in order.
        train: The images and labels that `Task.train` indexes; labels are positions in `names`.
        test: The same for `Task.test`.
        names: The class names, in order of arrival.

    Example:
        >>> digits = moca.load("digits")
        >>> tasks = []
        >>> for classes in [(0, 1), (7, 1), (2, 7)]:
        ...     train, test = (torch.isin(s.labels, torch.tensor(classes)) for s in (digits.train, digits.test))
        ...     tasks.append(moca.Task(classes, train.nonzero().flatten(), test.nonzero().flatten()))
        >>> moca.Stream(digits, tasks, digits.train, digits.test, digits.classes)
        Stream of 3 tasks over 'digits', classes: 2, 2, 2
    """

    def __init__(
        self, dataset: Dataset, tasks: Sequence[Task], train: Split, test: Split, names: Sequence[str]
    ) -> None:
        self.dataset, self.train, self.test = dataset, train, test
        self.tasks, self.names = tuple(tasks), tuple(map(str, names))
        refuse_unfit(self)

    @property
    def classes(self) -> int:
        """The number of classes of the data set, including any that no task has."""
        return len(self.names)

    @property
    def protocol(self) -> Protocol:
        """The data set's protocol, which says how images are prepared for the encoder."""
        return self.dataset.protocol

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the images."""
        return self.dataset.shape

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(task.tested)) for task in self)
        return f"Stream of {len(self)} tasks over '{self.dataset.name}', classes: {sizes}"

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Stream: ...
    def __getitem__(self, index: int | slice) -> Task | Stream:
        if isinstance(index, slice):
            return self.with_tasks(self.tasks[index])
        return self.tasks[index]

    def merged(self) -> Stream:
        """The same data as one task, for joint training."""
        classes = tuple(dict.fromkeys(c for task in self for c in task.classes))
        tested = tuple(dict.fromkeys(c for task in self for c in task.tested))
        whole = Task(classes, torch.cat([t.train for t in self]), torch.cat([t.test for t in self]), tested)
        return self.with_tasks([whole])

    def with_tasks(self, tasks: Sequence[Task]) -> Stream:
        """The same data in other tasks."""
        return Stream(self.dataset, tasks, self.train, self.test, self.names)


def class_incremental(
    dataset: Dataset,
    tasks: int | Sequence[int],
    order: str | Sequence[int] = "natural",
    validation: float = 0.0,
    seed: int = 0,
) -> Stream:
    """A class-incremental stream: the classes of a data set, in some order, split into tasks.

    Args:
        dataset: The images and their classes.
        tasks: The number of tasks, with sizes as equal as possible; or the number of classes of each.
        order: `"natural"`, `"random"`, one of the data set's named orders, or the class numbers.
        validation: The share of each class's training samples to test on, instead of the test set.
        seed: Determines a random order, and which samples are held out for validation.

    Example:
        >>> moca.class_incremental(moca.load("digits"), tasks=[4, 3, 3], order="random", seed=1)[:2]
        Stream of 2 tasks over 'digits', classes: 4, 3
    """
    if not isinstance(dataset, Dataset):
        raise MocaError(
            "class_incremental takes a moca.Dataset, as moca.load(name) or moca.dataset((images, labels)) gives, not "
            f"a {type(dataset).__name__}"
        )
    count = len(dataset.classes)
    groups = deal(range(count), tasks, dataset.name)
    arrival = _arrival(order, dataset, seed)
    if not 0 <= validation < 1:
        raise MocaError(f"validation must be a share from 0 to below 1 (it is {validation})")
    position = torch.empty(count, dtype=torch.int64)
    position[torch.tensor(arrival)] = torch.arange(count)
    names = tuple(dataset.classes[c] for c in arrival)
    train = Split(dataset.train.images, position[dataset.train.labels])
    test = Split(dataset.test.images, position[dataset.test.labels])
    _refuse_empty_classes(train, names, dataset.name)

    learn = torch.ones(len(train), dtype=torch.bool)
    if validation:
        for c in range(count):
            members = (train.labels == c).nonzero().squeeze(1)
            held = Random(seed, f"validation/{c}").permutation(len(members))[: max(1, round(validation * len(members)))]
            if len(held) == len(members):
                raise MocaError(f"validation={validation} leaves no training sample of class '{names[c]}'; lower it")
            learn[members[held]] = False
        test = train
    judge = ~learn if validation else torch.ones(len(test), dtype=torch.bool)

    dealt = [Task(group, _members(train, group, learn), _members(test, group, judge)) for group in groups]
    for number, task in enumerate(dealt, 1):
        if len(task.test) == 0:
            raise MocaError(f"task {number} of '{dataset.name}' has no test sample; add some, or set validation=0.1")
    return Stream(dataset, dealt, train, test, names)


def domain_incremental(datasets: Iterable[Dataset]) -> Stream:
    """A domain-incremental stream: one data set for each task, all with the same classes.

    Each task is tested on the test set of its own data set. All images are normalised as those of the first.

    Args:
        datasets: The data sets, in order: permuted or rotated copies of one, photographs and drawings, ...

    Example:
        >>> digits = moca.load("digits")
        >>> moca.domain_incremental([digits, digits])
        Stream of 2 tasks over 'digits', classes: 10, 10
    """
    sets = list(datasets) if isinstance(datasets, Iterable) else []
    if not sets or not all(isinstance(one, Dataset) for one in sets):
        raise MocaError(
            "domain_incremental takes moca.Dataset objects, one for each task; moca.dataset((images, labels)) makes one"
        )
    first = sets[0]
    for number, one in enumerate(sets, 1):
        if one.classes != first.classes:
            raise MocaError(f"data set {number} has other classes than the first; give all the same, with classes=")
        if (one.shape, one.vectors) != (first.shape, first.vectors):
            shapes = " and ".join("x".join(map(str, of.shape)) for of in (one, first))
            raise MocaError(f"data set {number} and the first have samples of {shapes}; make all alike")
    (train, learn), (test, judge) = (_joined([getattr(one, name) for one in sets]) for name in ("train", "test"))
    tasks = [
        Task(_classes(train, of_train), of_train, of_test, _classes(test, of_test))
        for of_train, of_test in zip(learn, judge, strict=True)
    ]
    prints = [one.fingerprint for one in sets]
    whole = replace(
        first,
        name="+".join(dict.fromkeys(one.name for one in sets)),
        train=train,
        test=test,
        protocol=replace(first.protocol, tasks=(len(first.classes),) * len(sets)),
        fingerprint=sha256("".join(prints).encode()).hexdigest() if all(prints) else "",
        notes=tuple(dict.fromkeys(note for one in sets for note in one.notes)),
    )
    return Stream(whole, tasks, train, test, first.classes)


def _classes(split: Split, index: Tensor) -> tuple[int, ...]:
    return tuple(split.labels[index].unique().tolist())


def _joined(splits: Sequence[Split]) -> tuple[Split, Sequence[Tensor]]:
    """Several splits as one, and the indices that each has in it."""
    whole = Split(torch.cat([split.images for split in splits]), torch.cat([split.labels for split in splits]))
    return whole, torch.arange(len(whole)).split([len(split) for split in splits])


def _arrival(order: str | Sequence[int], dataset: Dataset, seed: int) -> list[int]:
    count = len(dataset.classes)
    if isinstance(order, str):
        random = order == "random"
        return Random(seed, "class order").permutation(count).tolist() if random else list(dataset.order(order))
    if sorted(order) != list(range(count)):
        raise MocaError(f"class_order must name each of the classes 0 to {count - 1} exactly once")
    return [int(c) for c in order]


def _refuse_empty_classes(train: Split, names: tuple[str, ...], dataset: str) -> None:
    counts = torch.bincount(train.labels, minlength=len(names))
    for name, size in zip(names, counts.tolist(), strict=True):
        if size == 0:
            raise MocaError(f"class '{name}' of '{dataset}' has no training sample; remove the class or add samples")


def _members(split: Split, classes: tuple[int, ...], allowed: Tensor) -> Tensor:
    wanted = (split.labels >= classes[0]) & (split.labels <= classes[-1])
    return (wanted & allowed).nonzero().squeeze(1)
