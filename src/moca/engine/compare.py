"""Several runs at once: every combination of the settings that vary, each with every seed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.managers import SyncManager
from pathlib import Path
from typing import Any

from moca.engine.cost import Cost
from moca.engine.folder import RESULT, SETTINGS, RunFolder
from moca.engine.interrupt import Interrupt
from moca.engine.pack import Ending, Entrant, take_turns
from moca.engine.progress import ProgressBar
from moca.engine.result import Result
from moca.engine.run import Advance, Running, build_stream, resume, start
from moca.engine.trainer import check_execution, count_steps, pick_device
from moca.errors import MocaError
from moca.settings import Run, validate

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PACKED = 8
"""Runs that share a GPU unless told otherwise: at small batches one alone leaves most of it idle."""


@dataclass(frozen=True)
class Plan:
    """One run of a comparison: what to run, what to call it, and where."""

    label: str
    settings: Run
    folder: Path


def plan(settings: dict[str, Any], seeds: Sequence[int], out: Path) -> list[Plan]:
    """Every combination of the settings given as lists, each with every seed."""
    if "seed" in settings:
        raise MocaError("a comparison takes seeds=, how many or which ones, instead of seed=")
    varied = {key: values for key, values in settings.items() if isinstance(values, list)}
    fixed = {key: value for key, value in settings.items() if key not in varied}
    plans = []
    for combination in itertools.product(*varied.values()):
        chosen = dict(zip(varied, combination, strict=True))
        for seed in seeds:
            run = validate(Run, fixed | chosen | {"seed": seed})
            name = label(run, set(varied))
            plans.append(Plan(name, run, out / folder_name(f"{name}-s{seed}")))
    if not plans:
        raise MocaError("nothing to run: give at least one seed and one value of every setting")
    if len({p.folder for p in plans}) < len(plans):
        raise MocaError("two of the runs are the same; give each value and seed once")
    return plans


def label(run: Run, varied: Iterable[str] = ()) -> str:
    """What a run is called: learner and perturbation, and whatever else varies."""
    name = str(run.learner) + ("" if run.perturb.name == "none" else f"+{run.perturb}")
    others = [f"{key}={getattr(run, key)}" for key in sorted(set(varied) - {"learner", "perturb", "seed"})]
    return " ".join([name, *others])


def folder_name(name: str) -> str:
    """The name with everything replaced that a file system or a shell may not like."""
    return re.sub(r"[^A-Za-z0-9+=._-]+", "_", name)


@dataclass(frozen=True)
class Outcome:
    """What came of the runs of a comparison."""

    results: list[Result]
    mistakes: list[str]
    """Why the others could not be done, by their labels."""
    interrupted: bool
    cost: Cost | None
    """None where nothing was left to do."""


def carry_out(plans: Sequence[Plan], jobs: int | None = None, shown: bool = True) -> Outcome:
    """All runs, `jobs` at a time: in processes on the CPU (by default one), packed on a GPU (by default eight).

    Runs that are finished already are taken as they are, unfinished ones go on. A run that diverges or cannot be done
    does not stop the others. After Ctrl-C the results so far come back, the last ones interrupted.
    """
    if jobs is not None and jobs < 1:
        raise MocaError(f"jobs must be at least 1 (it is {jobs})")
    begun, on_gpu = time.perf_counter(), any(pick_device(p.settings.device).type == "cuda" for p in plans)
    # Compiled steps have been seen to stop for ever when four of them shared a GPU.
    compiled = on_gpu and any(p.settings.execution == "compiled" for p in plans)
    _check_folders(plans)
    for p in plans:
        check_execution(p.settings)
    total = sum(count_steps(p.settings, build_stream(p.settings)) for p in plans)
    with ProgressBar(total, shown=shown) as bar:
        if on_gpu or jobs in (None, 1):
            entrants = [_entrant(p, f"run {i}/{len(plans)} {p.label}", bar) for i, p in enumerate(plans, 1)]
            endings = take_turns(entrants, 1 if compiled else jobs or (_PACKED if on_gpu else 1))
        else:
            endings = _side_by_side(plans, jobs, bar)
    results = [e for e in endings if isinstance(e, Result)]
    return Outcome(
        results,
        [f"{p.folder.name}: {e}" for p, e in zip(plans, endings, strict=True) if isinstance(e, MocaError)],
        None in endings or any(r.status == "interrupted" for r in results),
        Cost.of(results, time.perf_counter() - begun),
    )


def _check_folders(plans: Sequence[Plan]) -> None:
    folder = plans[0].folder.parent
    if (folder / SETTINGS).is_file():
        raise MocaError(f"'{folder}' is the folder of a single run; choose another with out=")
    others = {found.parent.name for found in folder.glob(f"*/{SETTINGS}")} - {p.folder.name for p in plans}
    if others:
        raise MocaError(
            f"'{folder}' holds {len(others)} runs that are not in this comparison, such as {min(others)}; "
            "compare them too, or choose another folder with out="
        )
    for p in plans:
        if (p.folder / SETTINGS).is_file() and RunFolder(p.folder).settings() != p.settings:
            raise MocaError(f"'{p.folder}' holds a run with other settings; choose another folder with out=")


def _entrant(p: Plan, title: str, bar: ProgressBar) -> Entrant:
    return Entrant(
        lambda: _open(p, lambda steps, where: bar(steps, f"{title} {where}")), pick_device(p.settings.device)
    )


def _open(p: Plan, advance: Advance) -> Running | Result:
    """Start, resume or just read a run, depending on what its folder holds."""
    if (p.folder / RESULT).is_file():
        result = Result.load(p.folder)
        advance(result.steps, "done before")
        return result
    return resume(p.folder, advance) if (p.folder / SETTINGS).is_file() else start(p.settings, p.folder, advance)


def _side_by_side(plans: Sequence[Plan], jobs: int, bar: ProgressBar) -> list[Ending]:
    """Runs in processes of their own, which tell the bar through a queue."""
    context = multiprocessing.get_context("spawn")
    manager, done = SyncManager(ctx=context), 0
    with _signals_held():
        manager.start(_serve, (os.getpid(),))
    with manager, Interrupt() as interrupt:
        ticks, stop = manager.Queue(), manager.Event()
        setting = (os.getpid(), max(1, (os.cpu_count() or 1) // jobs))
        with ProcessPoolExecutor(jobs, context, _carry_out_runs, setting) as pool:
            futures: list[Future[Ending]] = []
            while done < len(futures) or (len(futures) < len(plans) and not interrupt.requested):
                # Only as many as can begin at once: what the pool has in its queue cannot be taken back.
                if len(futures) < min(done + jobs, len(plans)) and not interrupt.requested:
                    with _signals_held():
                        futures.append(pool.submit(_in_process, plans[len(futures)], ticks.put, stop))
                try:
                    steps, where = ticks.get(timeout=0.02 if len(futures) < min(done + jobs, len(plans)) else 0.2)
                    bar(steps, f"run {min(done + 1, len(plans))}/{len(plans)} {where}")
                except queue.Empty:
                    pass
                done = sum(f.done() for f in futures)
                if interrupt.requested and not stop.is_set():
                    stop.set()
            return [_ending(f) for f in futures] + [None] * (len(plans) - len(futures))


def _ending(done: Future[Ending]) -> Ending:
    try:
        return done.result()
    except BrokenProcessPool:
        return MocaError("its process ended before it did; the same comparison again goes on")


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
    """Stop the run of this process as Ctrl-C would, once it listens; a signal to the parent alone reaches it so too."""
    try:
        stop.wait()
        while signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
    except (OSError, EOFError):  # the comparison has ended
        pass


def _carry_out_runs(parent: int, threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    _serve(parent)


def _in_process(p: Plan, tell: Callable[[tuple[int, str]], None], stop: threading.Event) -> Ending:
    threading.Thread(target=_pass_on, args=(stop,), daemon=True).start()
    try:
        run = _open(p, lambda steps, where: tell((steps, f"{p.label} {where}")))
        return run if isinstance(run, Result) else run.finish()
    except MocaError as error:
        return error
