"""Several runs in one process: they take turns step by step, on a GPU each on a stream of its own."""

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
"""What came of a run: its result, why it could not be done, or nothing, where Ctrl-C came first."""
_POLL = 1.0
"""Seconds between two looks at a run that another process is at."""


@dataclass
class Job:
    """A run that is to be carried out."""

    open: Callable[[], Running | Result]
    """Makes it ready, or finds that it has been done before. A second call goes on from the last checkpoint."""
    device: torch.device
    failed: Callable[[Exception], str] | None = None
    """Tells in a line of an exception that costs this run alone, as code of the user's own takes part in it; without,
    it is a defect of ours, and raised."""
    images_before: int | None = None
    """Trained on when it was first opened."""
    first_task: FirstTask = field(default_factory=FirstTask)
    """Which others may share."""
    ended: Callable[[Result], None] | None = None
    """Told of its result at once."""
    held: Callable[[], bool] | None = None
    """Whether another process is at it, which is waited for then; without, that is a mistake."""


def take_turns(
    jobs: Sequence[Job], at_a_time: int, elsewhere: Callable[[int], None] = lambda runs: None
) -> list[Ending]:
    """Carry out all runs, at most so many at a time; fewer where the memory of the GPU does not hold so many.

    A run's numbers do not depend on the others while there is memory for all: it has its own stream, memory, counters,
    switches and graphs. One that finds no memory waits and is opened again once another has ended; one that another
    process is at, until that has ended it or let go of it. A mistake in one, or an exception where code of the user's
    own takes part, does not stop the others. After Ctrl-C every run under way keeps its state, and no other one begins.
    `elsewhere` is told how many runs are left where other processes are at all of them.
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
        except Exception:  # a defect of ours: the others keep their state
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
    """The numbers of runs that have not begun, in the order in which they may."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.numbers = deque(range(len(jobs)))
        self.asked: dict[int, float] = {}
        """When a run was last seen to be held: a look at it costs a look at the disk."""

    def __len__(self) -> int:
        return len(self.numbers)

    def ready(self) -> int | None:
        """Take the first that can begin here and now."""
        for number in self.numbers:
            if self.jobs[number].first_task.lets_begin and not self._held(number):
                self.numbers.remove(number)
                return number
        return None

    def append(self, number: int) -> None:
        """After all others: somebody else was faster."""
        self.numbers.append(number)

    def appendleft(self, number: int) -> None:
        """Before all others."""
        self.numbers.appendleft(number)

    def _held(self, number: int) -> bool:
        now = time.monotonic()
        if now < self.asked.get(number, -math.inf) + _POLL:
            return True
        held = self.jobs[number].held
        if held is None or not held():
            return False
        self.asked[number] = now
        return True


class _Active:
    """A run that is being carried out, one turn at a time; the first turn opens it."""

    def __init__(self, number: int, job: Job, streams: _Streams, active: Sized, interrupt: Interrupt) -> None:
        self.number, self.job, self.streams = number, job, streams
        self.on_stream, self.on_gpu = streams.take(job.device), job.device.type == "cuda"
        self.ending: Ending = None
        self.opened = self.needs_memory = self.held = False
        self.work = self._work(active, interrupt)

    def turn(self) -> bool:
        """Do the next step; False if that was the end of it, for whatever reason."""
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
            self.ending = run
            return
        self.opened = True
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
                run.folder.keep_failure(error)  # so that it is listed as failed, not as stopped
            run.give_up()
            raise
        self.ending = run.result

    def tell(self) -> None:
        """Hand the result of a run that has ended to whoever asked for it."""
        if self.job.ended is not None and isinstance(self.ending, Result) and self.ending.status != "interrupted":
            self.job.ended(self.ending)

    def leave(self) -> None:
        """Give the stream back, and the memory: trainer and graphs refer to each other, so it takes a collection."""
        self.work.close()
        self.streams.put_back(self.job.device, self.on_stream)
        if self.needs_memory or (self.on_gpu and (self.opened or self.held)):
            gc.collect()
            torch.cuda.empty_cache()


class _Streams:
    """A CUDA stream for each run under way, used again by the next.

    Torch has 32 streams a device and gives them out in turn, so that ever new ones would soon meet in one; and what a
    run leaves in the allocator's cache can be used again on the same stream only.
    """

    def __init__(self) -> None:
        self.free: dict[torch.device, list[OnStream]] = defaultdict(list)

    def take(self, device: torch.device) -> OnStream:
        return self.free[device].pop() if self.free[device] else on_stream(device)

    def put_back(self, device: torch.device, used: OnStream) -> None:
        self.free[device].append(used)


OnStream = Callable[[], AbstractContextManager[Any]]
"""Entered for everything that a run does, from its opening on."""


def on_stream(device: torch.device) -> OnStream:
    """A new CUDA stream; nothing elsewhere, where work is done at once."""
    return partial(torch.cuda.stream, torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext


@contextmanager
def _short_collections() -> Iterator[None]:
    """Inside, what was there before is no garbage: looking through all that was imported, whenever a run ends, takes as
    long as hundreds of short steps."""
    if gc.get_freeze_count():  # somebody else knows better
        yield
        return
    gc.collect()  # what was garbage already would be kept, and with it memory that a run may need
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _bare(error: MocaError) -> MocaError:
    """The message alone: what led to it holds on to the run and its memory."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
