"""A step as a CUDA graph: recorded once for each shape, then replayed without any work on the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from moca.learners import Losses
from moca.state import tensors_in

if TYPE_CHECKING:
    from moca.engine.trainer import Trainer

_WARM_UP = 3


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: tuple[Tensor, Tensor]
    """Images and labels of the new samples: the graph reads them from here."""
    losses: Tensor
    """The graph writes them here."""
    names: list[str]
    images: int


class CapturedStep:
    """Runs the trainer's step as a graph where the shapes are settled, eagerly where they are not."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.stream = _stream_of_its_own(trainer.device)
        self.task = -1
        self.recordings: dict[int, _Recording] = {}

    def forget(self) -> None:
        """Record anew: the tensors that the graphs read and write are no longer the trainer's."""
        self.recordings = {}

    def __call__(self, index: Tensor) -> Losses:
        """One step on the samples at `index`."""
        trainer = self.trainer
        if not self._recurs(index):
            return trainer.step(*trainer.feed(index))
        if trainer.task != self.task:
            self.task, self.recordings = trainer.task, {}
        if len(index) not in self.recordings:
            self.recordings[len(index)] = self._record(index)
        recording = self.recordings[len(index)]
        trainer.feed.fetch(index, *recording.batch)
        recording.graph.replay()
        trainer.images_trained += recording.images
        if trainer.memory is not None:
            trainer.memory.offered += len(index)
        return dict(zip(recording.names, recording.losses.clone().unbind(), strict=True))

    def _recurs(self, index: Tensor) -> bool:
        """Whether more steps of these shapes will come: not while the memory fills, nor at the end of one epoch."""
        trainer, memory = self.trainer, self.trainer.memory
        filling = memory is not None and len(memory) < min(trainer.replay_size, memory.size)
        return not filling and (len(index) == trainer.settings.batch or trainer.settings.epochs > 1)

    def _record(self, index: Tensor) -> _Recording:
        """Record the step. Neither the warm-up nor the recording leaves a trace in the run."""
        trainer, batch = self.trainer, self.trainer.feed(index)
        with self._without_trace():
            current = torch.cuda.current_stream(trainer.device)
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
                for _ in range(_WARM_UP):
                    trainer.step(*batch)
            current.wait_stream(self.stream)
            trainer.optimiser.zero_grad()
            graph, before = torch.cuda.CUDAGraph(), trainer.images_trained
            with torch.cuda.graph(graph, stream=self.stream):
                losses = trainer.step(*batch)
                values = torch.stack(list(losses.values()))
            return _Recording(graph, batch, values, list(losses), trainer.images_trained - before)

    @contextmanager
    def _without_trace(self) -> Iterator[None]:
        """Put everything that steps change back in place afterwards; what they made anew (momentum) becomes zero."""
        trainer, memory = self.trainer, self.trainer.memory
        values = {t.data_ptr(): t.clone() for t in tensors_in(trainer.state())}
        offered, images = memory.offered if memory is not None else 0, trainer.images_trained
        try:
            yield
        finally:
            for tensor in tensors_in(trainer.state()):
                if tensor.data_ptr() in values:
                    tensor.copy_(values[tensor.data_ptr()])
                else:
                    tensor.zero_()
            trainer.images_trained = images
            if memory is not None:
                memory.offered = offered


def _stream_of_its_own(device: torch.device) -> torch.cuda.Stream:
    """Where the run's graphs are recorded: the stream that it has to itself, or a new one beside the default stream.

    Never the one that all of torch's recordings share by default: the workspace of matrix products belongs to the
    stream of the recording, and graphs that are replayed at the same time must not write to the same one.
    """
    current = torch.cuda.current_stream(device)
    return torch.cuda.Stream(device) if current == torch.cuda.default_stream(device) else current
