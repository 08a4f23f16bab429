"""A step as a CUDA graph: recorded once for each batch size, then replayed with almost no work on the host."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from moca.engine.feed import Feed
from moca.engine.learning import Learning, Step
from moca.state import layout, placed_tensors


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: tuple[Tensor, Tensor]
    """Images and labels of the new samples, which the graph reads."""
    losses: Tensor
    """The losses, which the graph writes."""
    names: list[str]
    """The names of the losses."""
    outputs: dict[str, Tensor]
    """The requested outputs, which the graph writes."""
    images: int
    """How many images a step trains on."""
    made_for: Any
    """The layout of the learner's state at the recording: addresses of tensors, and plain values."""


class CapturedStep:
    """Runs the step of a learner as a graph; eagerly while the memory fills up, since shapes still change."""

    def __init__(self, learning: Learning, feed: Feed) -> None:
        self.learning, self.feed = learning, feed
        self.stream = _stream_of_its_own(learning.device)
        self.recordings: dict[tuple[int, bool], _Recording] = {}
        """By batch size, and whether the batch is offered to the memory."""

    def forget(self, sizes: Container[int]) -> None:
        """Drop stale recordings, whose tensors have moved or whose plain values have changed: all after the first task,
        for most learners none after later ones. Also drop those of batch sizes not in `sizes`, which the current task
        does not need, since each holds the memory of a whole step."""
        now = self._layout() if self.recordings else None
        self.recordings = {
            shape: recording
            for shape, recording in self.recordings.items()
            if shape[0] in sizes and recording.made_for == now
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
        """Record the step; neither the warm-up nor the recording changes the state of the run."""
        learning, batch = self.learning, self.feed(index)
        with self._without_trace(), learning.drawing():
            current = torch.cuda.current_stream(learning.device)
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
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
        """The layout of everything a step depends on; of the memory's counter, only how many samples it lets a step
        draw."""
        learning, memory = self.learning, self.learning.memory
        state = learning.state() | {"images_trained": None, "held": None}
        if memory is not None:
            state["memory"] |= {"offered": min(learning.replay_size, len(memory))}
        return layout(state)

    @contextmanager
    def _without_trace(self) -> Iterator[None]:
        """Undo the changes of the steps inside; state that they created, such as momentum, or gave another
        shape is set to zero."""
        learning, memory = self.learning, self.learning.memory
        values = {path: tensor.clone() for path, tensor in placed_tensors(learning.state())}
        offered, images = memory.offered if memory is not None else 0, learning.images_trained
        due, learning.outputs.due = learning.outputs.due, True  # a recorded step always computes all requested outputs
        try:
            yield
        finally:
            learning.outputs.due = due
            for path, tensor in placed_tensors(learning.state()):
                if path in values and values[path].shape == tensor.shape:
                    tensor.copy_(values[path])
                else:
                    tensor.zero_()
            learning.images_trained = images
            if memory is not None:
                memory.offered = offered


def _stream_of_its_own(device: torch.device) -> torch.cuda.Stream:
    """The stream on which the run's graphs are recorded: its own stream, or a new one if it runs on the default stream.

    Never the stream that torch's captures share by default: the workspace of matrix products belongs to the stream of
    the capture, and graphs that are replayed at the same time must not share one.
    """
    current = torch.cuda.current_stream(device)
    return torch.cuda.Stream(device) if current == torch.cuda.default_stream(device) else current
