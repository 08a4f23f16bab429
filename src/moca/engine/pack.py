"""Several runs on one GPU: each on a stream of its own, taking turns step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from moca.engine.interrupt import Interrupt
from moca.engine.result import Result
from moca.engine.run import Running
from moca.errors import MocaError

Opener = Callable[[], Running | Result]
"""Makes a run ready, or finds that it has been done before."""


@dataclass
class _Seat:
    number: int
    opener: Opener
    running: Running
    steps: Iterator[None]
    stream: torch.cuda.Stream


def take_turns(openers: Sequence[Opener], seats: int) -> list[Result]:
    """Carry out all runs, at most `seats` at a time; fewer where the memory of the GPU does not hold so many.

    A run's numbers do not depend on the others: it has its own stream, memory, counters and graphs.
    """
    waiting = deque(enumerate(openers))
    active: list[_Seat] = []
    results: dict[int, Result] = {}

    def make_room(error: torch.OutOfMemoryError, number: int, opener: Opener) -> int:
        """Put a run that does not fit back into the queue; how many seats there are from now on."""
        if not active:
            raise MocaError("the GPU's memory does not hold one run; use a smaller batch or model") from error
        waiting.appendleft((number, opener))
        torch.cuda.empty_cache()
        return len(active)

    with Interrupt() as interrupt:
        while active or (waiting and not interrupt.requested):
            while waiting and len(active) < seats and not interrupt.requested:
                number, opener = waiting.popleft()
                try:
                    seat = _sit_down(number, opener, interrupt)
                except torch.OutOfMemoryError as error:
                    seats = make_room(error, number, opener)
                    continue
                if isinstance(seat, Result):
                    results[number] = seat
                else:
                    active.append(seat)
            for seat in list(active):
                try:
                    with torch.cuda.stream(seat.stream):
                        next(seat.steps)
                except StopIteration:
                    active.remove(seat)
                    results[seat.number] = seat.running.result
                except torch.OutOfMemoryError as error:
                    active.remove(seat)
                    seats = make_room(error, seat.number, seat.opener)
    return [results[number] for number in sorted(results)]


def _sit_down(number: int, opener: Opener, interrupt: Interrupt) -> _Seat | Result:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run = opener()
    if isinstance(run, Result):
        return run
    return _Seat(number, opener, run, run.steps(interrupt), stream)
