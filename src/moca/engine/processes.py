"""Several runs at once on a CPU: each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import ModuleType

import torch

from moca.engine.interrupt import Interrupt, be_led
from moca.engine.pack import Ending, Entrant, take_turns
from moca.engine.progress import ProgressBar
from moca.engine.result import Result
from moca.engine.run import Advance, Running
from moca.errors import MocaError

Open = Callable[[Advance], Running | Result]
"""Makes a run ready, or finds that it has been done before; it travels to the process."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POSIX = hasattr(signal, "pthread_sigmask")


def side_by_side(runs: Sequence[tuple[str, Open]], jobs: int, bar: ProgressBar) -> list[Ending]:
    """Carry out runs, each with its name, `jobs` at a time. A process that is killed costs the run that it had.

    After a defect in one the others keep their state, as after Ctrl-C.
    """
    endings: list[Ending] = [None] * len(runs)
    defect: RuntimeError | None = None
    waiting, idle, busy = deque(range(len(runs))), list[_Worker](), list[_Worker]()
    with Interrupt() as interrupt:
        try:
            while busy or (waiting and not interrupt.requested):
                while waiting and len(busy) < jobs and not interrupt.requested:
                    worker = idle.pop() if idle else _Worker(max(1, (os.cpu_count() or 1) // jobs))
                    number = waiting.popleft()
                    worker.begin(number, runs[number])
                    busy.append(worker)
                ready = wait([worker.talk for worker in busy], timeout=0.2)
                for worker in [worker for worker in busy if worker.talk in ready]:
                    said = worker.hear()
                    if isinstance(said, tuple):
                        done = len(runs) - len(waiting) - len(busy) + 1
                        bar(said[0], f"run {done}/{len(runs)} {said[1]}")
                        continue
                    if said is None or isinstance(said, Result | MocaError):
                        endings[worker.number] = said
                    else:
                        defect = defect or said
                        interrupt.request()
                    busy.remove(worker)
                    if worker.process.is_alive():
                        idle.append(worker)
                if interrupt.requested:
                    for worker in busy:
                        worker.stop()
        except KeyboardInterrupt:  # a second one: at once
            for worker in busy:
                worker.process.kill()
            raise
        finally:
            for worker in (*idle, *busy):
                worker.end()
    if defect is not None:
        raise defect
    return endings


class _Worker:
    """A process for one run after the other."""

    number: int
    """Of the run that it has."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.talk, theirs = context.Pipe()
        hears, self._stop = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(os.getpid(), threads, theirs, hears))
        if _POSIX:
            resource_tracker.ensure_running()  # it would let signals through when the first process is started
        with _signals_held(), _script_hidden():
            self.process.start()
        theirs.close()
        hears.close()

    def begin(self, number: int, run: tuple[str, Open]) -> None:
        """Hand it a run."""
        self.number = number
        with suppress(BrokenPipeError):  # killed while it was idle: `hear` will tell
            self.talk.send(run)

    def hear(self) -> Ending | RuntimeError | tuple[int, str]:
        """How its run ended, or how many steps it has done and where it is."""
        try:
            said: Ending | RuntimeError | tuple[int, str] = self.talk.recv()
        except (EOFError, OSError):
            self.process.join()
            return MocaError("its process was killed; the same comparison again goes on with it")
        return said

    def stop(self) -> None:
        """Ask its run to keep its state and end."""
        self._stop.close()

    def end(self) -> None:
        """Let the process go; one that still has a run is told to stop."""
        self.stop()
        self.talk.close()
        self.process.join(10)
        self.process.kill()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Around the start of a process: it leaves Ctrl-C alone until it has said what to do about it."""
    if not _POSIX:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Around the start of a process: it would carry out the user's script again, unless that is written for it."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _work(parent: int, threads: int, talk: Connection, stop: Connection) -> None:
    """What a process does. It leaves signals to its parent, and ends when that is gone.

    Ctrl-C reaches every process of the terminal; only a run under way answers it, by keeping its state.
    """
    be_led()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if _POSIX:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    threading.Thread(target=_pass_on, args=(stop,), daemon=True).start()
    torch.set_num_threads(threads)
    with suppress(EOFError, OSError):  # the comparison has ended
        while True:
            name, open_run = talk.recv()
            talk.send(_carry_out(name, open_run, talk))


def _carry_out(name: str, open_run: Open, talk: Connection) -> Ending | RuntimeError:
    """Do a run. What a defect of ours has raised cannot travel with its traceback, and some of it not at all."""

    def advance(steps: int, where: str) -> None:
        with suppress(OSError):  # nobody listens to one that was told to stop
            talk.send((steps, f"{name} {where}"))

    try:
        return take_turns([Entrant(partial(open_run, advance), torch.device("cpu"))], seats=1)[0]
    except Exception:
        return RuntimeError(f"a run failed\n{traceback.format_exc()}")


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _pass_on(stop: Connection) -> None:
    """Stop the run of this process as Ctrl-C would, once it listens: the signal may have gone to the parent alone."""
    try:
        stop.recv()
    except (EOFError, OSError):  # closed, which is the sign
        while signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)
