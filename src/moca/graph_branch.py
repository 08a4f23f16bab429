"""Work that runs in parallel with the main pass of a step: a separate branch of the recorded CUDA graph."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Now(threading.local):
    """The step that a thread is in; several threads may train."""

    beginning: torch.cuda.Event | None = None
    branched = False
    """Whether the step has already had a branch."""


_now = _Now()
_branches: dict[int, torch.cuda.Stream] = {}
"""The second stream for each stream on which steps are recorded; consecutive runs on that stream share it."""


@contextmanager
def step() -> Iterator[None]:
    """Wraps a step; its first branch starts where the step does."""
    before, _now.beginning, _now.branched = _now.beginning, _recorded_event(), False
    try:
        yield
    finally:
        _now.beginning = before


@contextmanager
def branch() -> Iterator[None]:
    """Run the work inside on a parallel branch. It may use nothing computed so far in the step except the batches and
    their transforms."""
    if _now.beginning is None:
        yield
        return
    main = torch.cuda.current_stream()
    second = _second(main)
    if _now.branched:  # the results of the previous branch may still be in use, and its memory may have been freed
        second.wait_stream(main)
    else:
        second.wait_event(_now.beginning)
    _now.branched = True
    try:
        with torch.cuda.stream(second):
            yield
    finally:
        main.wait_stream(second)  # also after an error: a capture with an unjoined branch cannot be ended


def _second(main: torch.cuda.Stream) -> torch.cuda.Stream:
    """A high-priority stream: torch takes these from a separate pool, so it is never another run's main stream."""
    if main.cuda_stream not in _branches:
        _branches[main.cuda_stream] = torch.cuda.Stream(main.device, priority=-1)
    return _branches[main.cuda_stream]


def _recorded_event() -> torch.cuda.Event | None:
    """An event in the graph being recorded; None in eager mode, where a branch could reuse memory too early."""
    if not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
        return None
    event = torch.cuda.Event()
    event.record()
    return event
