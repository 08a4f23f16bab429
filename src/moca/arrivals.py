"""Streams that are not a clean sequence of tasks: functions that turn one stream into another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from moca.data import Split
from moca.errors import MocaError
from moca.random import Random
from moca.settings.arrival import Arrival
from moca.streams import Stream, Task


def arriving(stream: Stream, how: Arrival, seed: int = 0) -> Stream:
    """Apply the settings in order: class imbalance, returning samples, blurred boundaries, then domains."""
    if how.imbalance < 1:
        stream = imbalanced(stream, how.imbalance, seed)
    if how.returns:
        stream = returning(stream, how.returns, seed)
    if how.blur:
        stream = blurred(stream, how.blur, seed)
    return domains(stream) if how.by == "domains" else stream


def imbalanced(stream: Stream, ratio: float, seed: int = 0) -> Stream:
    """Long-tailed classes: the rarest keeps `ratio` of its training samples, the most frequent all, the others a
    geometric sequence in between. Which classes are rare is random."""
    learnt = sorted({c for task in stream for c in task.classes})
    rank = dict(zip(learnt, Random(seed, "imbalance").permutation(len(learnt)).tolist(), strict=True))
    share = {c: ratio ** (rank[c] / max(1, len(learnt) - 1)) for c in learnt}

    def kept(task: Task) -> Tensor:
        parts = []
        for c, members in _by_class(stream, task).items():
            order = Random(seed, f"imbalance/{c}").permutation(len(members))
            parts.append(members[order[: max(1, round(share[c] * len(members)))]])
        return torch.cat(parts).sort().values

    return stream.with_tasks([replace(task, train=kept(task)) for task in stream])


def returning(stream: Stream, share: float, seed: int = 0) -> Stream:
    """Move a share of each class's training samples to random later tasks; every class keeps at least one sample in its
    own task."""
    coming: list[list[Tensor]] = [[] for _ in stream]
    for number, task in enumerate(stream):
        later = len(stream) - number - 1
        for c, members in _by_class(stream, task).items():
            random = Random(seed, f"returns/{c}")
            members = members[random.permutation(len(members))]
            late = min(round(share * len(members)), len(members) - 1) if later else 0
            coming[number].append(members[late:])
            when = number + 1 + random.below(torch.full((late,), max(later, 1)))
            for then in range(number + 1, len(stream)):
                coming[then].append(members[:late][when == then])
    return _holding(stream, map(torch.cat, coming))


def blurred(stream: Stream, width: float, seed: int = 0) -> Stream:
    """Blur the task boundaries: shift each sample in time by a normal number of tasks with standard deviation `width`.

    Tasks keep their lengths; their classes are those of the samples that end up in them.
    """
    index, sizes = torch.cat([task.train for task in stream]), [len(task.train) for task in stream]
    number, random = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)), Random(seed, "blur")
    order = (number + random.uniform(len(index)) + width * random.normal(len(index))).argsort()
    return _holding(stream, index[order].split(sizes))


def domains(stream: Stream) -> Stream:
    """Domain-incremental: every task has the same labels, the position of a class among the classes of its task."""
    sizes = {len(task.tested) for task in stream}
    if len(sizes) != 1:
        raise MocaError(
            f"by=domains needs tasks with equally many classes (here {', '.join(map(str, sorted(sizes)))}); set tasks"
        )
    (size,) = sizes
    position = torch.zeros(stream.classes, dtype=torch.int64)
    for task in stream:
        position[list(task.tested)] = torch.arange(size)
    names = tuple("/".join(stream.names[task.tested[label]] for task in stream) for label in range(size))
    train, test = (Split(split.images, position[split.labels]) for split in (stream.train, stream.test))
    everything = tuple(range(size))
    tasks = [replace(task, classes=everything, tested=everything) for task in stream]
    return Stream(stream.dataset, tasks, train, test, names)


def _by_class(stream: Stream, task: Task) -> dict[int, Tensor]:
    """The training samples of each class of a task."""
    labels = stream.train.labels[task.train]
    return {c: task.train[labels == c] for c in task.classes}


def _holding(stream: Stream, samples: Iterable[Tensor]) -> Stream:
    """The stream with these training samples in its tasks; a task's own classes come first, then those of others."""
    tasks = []
    for task, train in zip(stream, samples, strict=True):
        present = set(stream.train.labels[train].tolist())
        classes = (*(c for c in task.tested if c in present), *sorted(present - set(task.tested)))
        tasks.append(replace(task, train=train.sort().values, classes=classes))
    return stream.with_tasks(tasks)
