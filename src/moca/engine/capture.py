"""A step as a CUDA graph: recorded once for each shape, then replayed without any work on the host."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from moca.engine.feed import Feed
from moca.engine.learning import Learning, Step
from moca.state import layout, tensors_in

_WARM_UP = 1


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: tuple[Tensor, Tensor]
    """Images and labels of the new samples: the graph reads them from here."""
    losses: Tensor
    """The graph writes them here."""
    names: list[str]
    outputs: dict[str, Tensor]
    """And what else was asked for here."""
    images: int
    made_for: Any
    """Where the tensors of the learner's state lay, and its plain values."""


class CapturedStep:
    """Runs the step of a learner as a graph where the shapes are settled, eagerly while the memory fills."""

    def __init__(self, learning: Learning, feed: Feed) -> None:
        self.learning, self.feed = learning, feed
        self.stream = _stream_of_its_own(learning.device)
        self.recordings: dict[tuple[int, bool], _Recording] = {}
        """By the size of the batch, and whether the memory is offered it."""

    def forget(self, sizes: Container[int]) -> None:
        """Drop the recordings whose tensors are no longer the learner's, or that were made when its plain values were
        others: all of them after the first task, for most learners none after later ones. And those of batches that do
        not come in the current task, of these `sizes`: each holds the memory of a whole step."""
        now = self._layout() if self.recordings else None
        self.recordings = {
            shape: kept for shape, kept in self.recordings.items() if shape[0] in sizes and kept.made_for == now
        }

    def __call__(self, index: Tensor) -> Step:
        """One step on the samples at `index`."""
        learning, memory = self.learning, self.learning.memory
        if memory is not None and len(memory) < min(learning.replay_size, memory.size) and learning.learner.store:
            return learning.step(*self.feed(index))
        shape = len(index), learning.stores
        if shape not in self.recordings:
            self.recordings[shape] = self._record(index)
        recording = self.recordings[shape]
        self.feed.fetch(index, *recording.batch)
        recording.graph.replay()
        learning.images_trained += recording.images
        if memory is not None and learning.stores:
            memory.offered += len(index)
        losses = dict(zip(recording.names, recording.losses.clone().unbind(), strict=True))
        outputs = recording.outputs if learning.outputs.due else {}
        return Step(losses, {name: tensor.clone() for name, tensor in outputs.items()})

    def _record(self, index: Tensor) -> _Recording:
        """Record the step. Neither the warm-up nor the recording leaves a trace in the run."""
        learning, batch = self.learning, self.feed(index)
        with self._without_trace(), learning.drawing():
            current = torch.cuda.current_stream(learning.device)
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
                for _ in range(_WARM_UP):
                    learning.step(*batch)
            current.wait_stream(self.stream)
            learning.optimiser.zero_grad()
            graph, before = torch.cuda.CUDAGraph(), learning.images_trained
            with torch.cuda.graph(graph, stream=self.stream):
                step = learning.step(*batch)
                values = torch.stack(list(step.losses.values()))
            images = learning.images_trained - before
            return _Recording(graph, batch, values, list(step.losses), step.outputs, images, self._layout())

    def _layout(self) -> Any:
        """Of all that a step depends on; of the counters only how many samples they let it draw."""
        learning, memory = self.learning, self.learning.memory
        state = learning.state() | {"images_trained": None, "held": None}
        if memory is not None:
            state["memory"] |= {"offered": min(learning.replay_size, len(memory))}
        return layout(state)

    @contextmanager
    def _without_trace(self) -> Iterator[None]:
        """Put everything that steps change back in place afterwards; what they made anew (momentum) becomes zero."""
        learning, memory = self.learning, self.learning.memory
        values = {t.data_ptr(): t.clone() for t in tensors_in(learning.state()) if t.numel()}
        offered, images = memory.offered if memory is not None else 0, learning.images_trained
        due, learning.outputs.due = learning.outputs.due, True  # a recorded step has all that anybody ever wants
        try:
            yield
        finally:
            learning.outputs.due = due
            for tensor in tensors_in(learning.state()):
                if not tensor.numel():
                    continue  # all that are empty lie at 0
                if tensor.data_ptr() in values:
                    tensor.copy_(values[tensor.data_ptr()])
                else:
                    tensor.zero_()
            learning.images_trained = images
            if memory is not None:
                memory.offered = offered


def _stream_of_its_own(device: torch.device) -> torch.cuda.Stream:
    """Where the run's graphs are recorded: the stream that it has to itself, or a new one beside the default stream.

    Never the one that all of torch's recordings share by default: the workspace of matrix products belongs to the
    stream of the recording, and graphs that are replayed at the same time must not write to the same one.
    """
    current = torch.cuda.current_stream(device)
    return torch.cuda.Stream(device) if current == torch.cuda.default_stream(device) else current
