"""Several runs in one process: they take turns step by step, on a GPU each on its own stream."""

from __future__ import annotations

import gc
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from moca.engine.first_task import FirstTask
from moca.engine.interrupt import Interrupt
from moca.engine.result import Result
from moca.engine.run import Running
from moca.errors import Held, MocaError, out_of_memory

Ending = Result | MocaError | None
"""How a run ended: with a result, with an error, or None if Ctrl-C came before it started."""
_POLL = 1.0
"""Seconds between two checks of a run that another process holds."""


@dataclass
class Job:
    """A run to be carried out."""

    open: Callable[[], Running | Result]
    """Opens the run, or returns its result if it is already done. A second call resumes from the last checkpoint."""
    device: torch.device
    failed: Callable[[Exception], str] | None = None
    """Turns an exception into a line for the user. Set if user code is involved, so that the exception fails only this
    run; otherwise an exception is a bug in moca, and is raised."""
    images_before: int | None = None
    """Images trained on before the run was first opened."""
    first_task: FirstTask = field(default_factory=FirstTask)
    """The first task, possibly shared with other runs."""
    ended: Callable[[Result], None] | None = None
    """Called with the result as soon as the run ends."""
    held: Callable[[], bool] | None = None
    """Whether another process holds the run, which then waits for it; without this function, that is an error."""


def take_turns(
    jobs: Sequence[Job], at_a_time: int, elsewhere: Callable[[int], None] = lambda runs: None
) -> list[Ending]:
    """Carry out all runs, at most `at_a_time` at once; fewer if GPU memory is short.

    A run's numbers do not depend on the others while there is memory for all: it has its own stream, memory, counters,
    switches and graphs. A run that is out of memory waits and is reopened once another has ended; one held by another
    process waits until that process ends or releases it. A user error in one run, or an exception with user code
    involved, does not stop the others. After Ctrl-C every active run saves its state, and no other starts. `elsewhere`
    is called with the number of runs left if other processes hold all of them.
    """
    endings: list[Ending] = [None] * len(jobs)
    waiting, active, streams = _Waiting(jobs), list[_Active](), _Streams()
    on_gpu = any(job.device.type == "cuda" for job in jobs)
    with Interrupt() as interrupt, _short_collections() if on_gpu else nullcontext():
        try:
            while active or (waiting and not interrupt.requested):
                if len(active) < at_a_time and not interrupt.requested and (number := waiting.ready()) is not None:
                    active.insert(0, _Active(number, jobs[number], streams, active, interrupt))
                elif not active:
                    elsewhere(len(waiting))
                    time.sleep(_POLL)
                for run in list(active):
                    if run.turn():
                        continue
                    active.remove(run)
                    run.leave()
                    if run.held:
                        waiting.append(run.number)
                    elif not run.needs_memory:
                        endings[run.number] = run.ending
                        run.tell()
                    elif active:
                        waiting.appendleft(run.number)
                        at_a_time = len(active)
                    else:
                        endings[run.number] = MocaError(
                            "there is not enough memory for even one run; use a smaller batch, model or replay memory"
                        )
        except Exception:  # a bug in moca: let the other runs save their state
            interrupt.request()
            for run in active:
                with suppress(Exception):
                    run.turn()
            raise
        finally:
            for run in active:
                run.leave()
    return endings


class _Waiting:
    """The queue of runs that have not started, by number."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.numbers = deque(range(len(jobs)))
        self.seen_held: dict[int, float] = {}
        """When a run was last found to be held; cached, since each check accesses the disk."""

    def __len__(self) -> int:
        return len(self.numbers)

    def ready(self) -> int | None:
        """Remove and return the first run that can start now."""
        for number in self.numbers:
            if self.jobs[number].first_task.lets_begin and not self._held(number):
                self.numbers.remove(number)
                return number
        return None

    def append(self, number: int) -> None:
        """Queue a run after all others, since another process took it first."""
        self.numbers.append(number)

    def appendleft(self, number: int) -> None:
        """Queue a run before all others."""
        self.numbers.appendleft(number)

    def _held(self, number: int) -> bool:
        now = time.monotonic()
        if now < self.seen_held.get(number, -math.inf) + _POLL:
            return True
        held = self.jobs[number].held
        if held is None or not held():
            return False
        self.seen_held[number] = now
        return True


class _Active:
    """An active run, carried out one turn at a time; the first turn opens it."""

    def __init__(self, number: int, job: Job, streams: _Streams, active: Sized, interrupt: Interrupt) -> None:
        self.number, self.job, self.streams = number, job, streams
        self.on_stream, self.on_gpu = streams.take(job.device), job.device.type == "cuda"
        self.ending: Ending = None
        self.was_done = self.needs_memory = self.held = False
        self.work = self._work(active, interrupt)

    def turn(self) -> bool:
        """Do the next step; False if the run is over, for any reason."""
        try:
            with self.on_stream():
                return next(self.work, False)
        except MocaError as error:
            self.held = isinstance(error, Held) and self.job.held is not None
            self.ending = None if self.held else _bare(error)
        except Exception as error:
            self.needs_memory = isinstance(error, RuntimeError) and out_of_memory(error)
            if not self.needs_memory:
                if self.job.failed is None:
                    raise
                self.ending = MocaError(self.job.failed(error))
        return False

    def _work(self, active: Sized, interrupt: Interrupt) -> Generator[bool]:
        run = self.job.open()
        if isinstance(run, Result):
            self.ending, self.was_done = run, True
            return
        try:
            if self.job.images_before is None:
                self.job.images_before = run.images_before
            run.images_before = self.job.images_before
            yield True
            for _ in run.steps(interrupt):
                run.packed = max(run.packed, len(active))
                yield True
        except BaseException as error:
            if isinstance(error, MocaError) and run.settings.with_own_code:
                run.folder.keep_failure(error)  # so that the run is listed as failed, not as stopped
            run.give_up()
            raise
        self.ending = run.result

    def tell(self) -> None:
        """Pass the result to `Job.ended`, unless the run was interrupted."""
        if self.job.ended is not None and isinstance(self.ending, Result) and self.ending.status != "interrupted":
            self.job.ended(self.ending)

    def leave(self) -> None:
        """Release the stream and the memory; this needs a garbage collection, as trainer and graphs refer to each
        other."""
        self.work.close()
        self.streams.put_back(self.job.device, self.on_stream)
        if self.needs_memory or (self.on_gpu and not self.was_done):
            gc.collect()
            torch.cuda.empty_cache()


class _Streams:
    """A pool of CUDA streams, one for each active run.

    Streams are reused because torch has only 32 per device and assigns them in turn, so that new ones would soon
    coincide, and because memory cached by the allocator can only be reused on the same stream.
    """

    def __init__(self) -> None:
        self.free: dict[torch.device, list[OnStream]] = defaultdict(list)

    def take(self, device: torch.device) -> OnStream:
        return self.free[device].pop() if self.free[device] else on_stream(device)

    def put_back(self, device: torch.device, used: OnStream) -> None:
        self.free[device].append(used)


OnStream = Callable[[], AbstractContextManager[Any]]
"""A context entered for everything that a run does, from its opening on."""


def on_stream(device: torch.device) -> OnStream:
    """A context for a new CUDA stream; on a CPU it does nothing."""
    return partial(torch.cuda.stream, torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext


@contextmanager
def _short_collections() -> Iterator[None]:
    """Exclude existing objects from garbage collection inside the block: scanning everything that was imported, each
    time a run ends, takes as long as hundreds of short steps."""
    if gc.get_freeze_count():  # the program manages this itself
        yield
        return
    gc.collect()  # otherwise existing garbage would be frozen too, with memory that a run may need
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _bare(error: MocaError) -> MocaError:
    """The error without traceback and context, which would keep the run and its memory alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
