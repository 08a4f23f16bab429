"""Several runs at once on a CPU: each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.managers import SyncManager
from typing import Any

import torch

from moca.engine.interrupt import Interrupt
from moca.engine.pack import Ending, Entrant, take_turns
from moca.engine.progress import ProgressBar
from moca.engine.result import Result
from moca.engine.run import Advance, Running
from moca.errors import MocaError

Open = Callable[[Advance], Running | Result]
"""Makes a run ready, or finds that it has been done before; it travels to the process."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def side_by_side(runs: Sequence[tuple[str, Open]], jobs: int, bar: ProgressBar) -> list[Ending]:
    """Carry out runs, each with its name, `jobs` at a time; they tell the bar through a queue."""
    context = multiprocessing.get_context("spawn")
    manager, done = SyncManager(ctx=context), 0
    resource_tracker.ensure_running()  # it would let signals through when the first process is started
    with _signals_held():
        manager.start(_serve, (os.getpid(),))
    with manager, Interrupt() as interrupt:
        ticks, stop = manager.Queue(), manager.Event()
        setting = (os.getpid(), max(1, (os.cpu_count() or 1) // jobs), stop)
        with ProcessPoolExecutor(jobs, context, _carry_out_runs, setting) as pool:
            futures: list[Future[Ending]] = []
            while done < len(futures) or (len(futures) < len(runs) and not interrupt.requested):
                # Only as many as can begin at once: what the pool has in its queue cannot be taken back.
                if len(futures) < min(done + jobs, len(runs)) and not interrupt.requested:
                    with _signals_held():
                        futures.append(_submit(pool, *runs[len(futures)], ticks.put, stop))
                try:
                    steps, where = ticks.get(timeout=0.02 if len(futures) < min(done + jobs, len(runs)) else 0.2)
                    bar(steps, f"run {min(done + 1, len(runs))}/{len(runs)} {where}")
                except queue.Empty:
                    pass
                done = sum(f.done() for f in futures)
                if interrupt.requested and not stop.is_set():
                    stop.set()
            return [_ending(f) for f in futures] + [None] * (len(runs) - len(futures))


def _submit(pool: ProcessPoolExecutor, *run: Any) -> Future[Ending]:
    """Hand a run to a process; once one has died, the pool takes no more."""
    try:
        return pool.submit(_in_process, *run)
    except BrokenProcessPool as error:
        refused = Future[Ending]()
        refused.set_exception(error)
        return refused


def _ending(done: Future[Ending]) -> Ending:
    try:
        return done.result()
    except BrokenProcessPool:
        return MocaError("a process ended before its run did, killed from outside; the same comparison again goes on")


@contextmanager
def _signals_held() -> Iterator[None]:
    """Around the start of a process: it leaves Ctrl-C alone until it has said what to do about it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(parent: int) -> None:
    """Prepare a process that works for `parent`: it leaves signals to the parent and ends when the parent is gone.

    Ctrl-C reaches every process of the terminal; only a run under way answers it, by keeping its state.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _pass_on(stop: threading.Event) -> None:
    """Stop the run of this process as Ctrl-C would, once it listens: the signal may have gone to the parent alone."""
    try:
        stop.wait()
        while signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
    except (OSError, EOFError):  # the comparison has ended
        pass


def _carry_out_runs(parent: int, threads: int, stop: threading.Event) -> None:
    torch.set_num_threads(threads)
    _serve(parent)
    threading.Thread(target=_pass_on, args=(stop,), daemon=True).start()


def _in_process(name: str, open_run: Open, tell: Callable[[tuple[int, str]], None], stop: threading.Event) -> Ending:
    if stop.is_set():
        return None
    advance: Advance = lambda steps, where: tell((steps, f"{name} {where}"))  # noqa: E731
    return take_turns([Entrant(partial(open_run, advance), torch.device("cpu"))], seats=1)[0]
