"""Work beside the main pass of a step: in a recorded graph it is a branch of its own, so that both share the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_beginning: torch.cuda.Event | None = None
_branched = False
"""Whether the step has had a branch already."""
_branches: dict[int, torch.cuda.Stream] = {}
"""The second stream of each stream on which steps are recorded. Runs that follow each other there share it."""


@contextmanager
def step() -> Iterator[None]:
    """Around a step: its first branch begins where the step does."""
    global _beginning, _branched
    before, _beginning, _branched = _beginning, _recorded_event(), False
    try:
        yield
    finally:
        _beginning = before


@contextmanager
def branch() -> Iterator[None]:
    """Inside, work needs nothing that the step has computed so far but the batches and their transforms."""
    if _beginning is None:
        yield
        return
    global _branched
    main = torch.cuda.current_stream()
    second = _second(main)
    if _branched:  # what the one before made may be in use, and its memory free
        second.wait_stream(main)
    else:
        second.wait_event(_beginning)
    _branched = True
    try:
        with torch.cuda.stream(second):
            yield
    finally:
        main.wait_stream(second)  # also after an error: a recording with a loose end cannot be ended


def _second(main: torch.cuda.Stream) -> torch.cuda.Stream:
    """One of high priority: torch has those in a supply of their own, so that it is no other run's main stream."""
    if main.cuda_stream not in _branches:
        _branches[main.cuda_stream] = torch.cuda.Stream(main.device, priority=-1)
    return _branches[main.cuda_stream]


def _recorded_event() -> torch.cuda.Event | None:
    """A mark in the graph being recorded; elsewhere a step has no branches, since memory could be reused too early."""
    if not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
        return None
    event = torch.cuda.Event()
    event.record()
    return event
