"""Carries out the runs of a comparison: each is started, resumed or just read; in processes on a CPU, packed on a
GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from moca.cores import cores
from moca.engine.cost import Cost
from moca.engine.device import pick_device
from moca.engine.first_task import FirstTask, beginning
from moca.engine.folder import RESULT, SETTINGS, TRACEBACK, RunFolder
from moca.engine.pack import Job, take_turns
from moca.engine.plan import Plan
from moca.engine.progress import DONE_BEFORE, ProgressBar
from moca.engine.request import ASKED, here_only
from moca.engine.result import Result
from moca.engine.run import Running
from moca.engine.subprocesses import side_by_side
from moca.engine.tracked import Tracked
from moca.engine.tracking import keep, known_by
from moca.engine.watch import Advance, Watcher
from moca.errors import Held, MocaError, Unreadable
from moca.settings import Choice, Run, spelt

_PACKED = 8
"""How many runs share a GPU by default: with small batches, a single run leaves most of it idle."""


WatcherOrFactory = Watcher | Callable[[], Watcher]
"""A watcher of all runs, or a factory that makes one for each run."""


@dataclass(frozen=True)
class Outcome:
    """The results of the runs of a comparison."""

    results: list[Result]
    """Of all runs that were started, including those that failed to start."""
    interrupted: bool
    cost: Cost | None
    """None if there was nothing left to do."""


def carry_out(
    plans: Sequence[Plan],
    jobs: int | None = None,
    shown: bool = True,
    watchers: Sequence[WatcherOrFactory] = (),
    ended: Callable[[Result], None] | None = None,
    among_others: bool = False,
    trackers: Sequence[Choice] = (),
    begun: Callable[[], None] | None = None,
) -> Outcome:
    """Carry out all runs, `jobs` at a time: in processes on the CPU (by default one), packed on a GPU (by default
    eight).

    Finished runs are just read, unfinished ones resumed. Several processes, on any GPUs and machines that share the
    folder, may carry out the same runs: each takes runs that no other process has, and returns when all are done. A run
    that diverges, cannot be done, or fails with user code involved does not stop the others. After Ctrl-C the results
    so far are returned, the last ones as interrupted.

    Args:
        plans: The runs.
        jobs: How many go at a time.
        shown: Whether to show a progress bar; without a terminal, a line for each run that ends.
        watchers: Watchers of all runs, or factories that make one for each run.
        ended: Called with the result of each run of this process as it ends.
        among_others: Whether the folder above the runs may hold other runs.
        trackers: The trackers; every run has its own.
        begun: Called once all checks have passed.
    """
    check(plans, jobs, among_others)
    since, on_gpu = time.perf_counter(), any(pick_device(p.settings.device).type == "cuda" for p in plans)
    in_processes = not (on_gpu or watchers or here_only(plans, trackers))  # child processes get no Python objects
    packable = on_gpu and _packable(plans, watchers)
    at_a_time = (jobs or (_PACKED if on_gpu else 1)) if packable or in_processes else 1
    if begun:
        begun()
    with ProgressBar(sum(p.steps for p in plans), shown=shown) as bar:

        def over(result: Result) -> None:
            if ended:
                ended(result)
            if result.images_this_time:
                bar.log(_in_a_line(result, plans))

        if on_gpu or at_a_time == 1:
            watching = [*watchers, *(partial(Tracked, tracker) for tracker in trackers)]
            first = _first_tasks(plans, shared=not watching)
            made = [_job(p, f"run {i}/{len(plans)} {p.label}", bar, watching, task, over)
                    for i, (p, task) in enumerate(zip(plans, first, strict=True), 1)]  # fmt: skip
            endings = take_turns(made, at_a_time, bar.elsewhere)
        else:
            given = [(p.label, partial(_given_folder, p, trackers)) for p in plans]
            endings = side_by_side(given, at_a_time, bar, over)
    results = [_in_the_end(p, e) for p, e in zip(plans, endings, strict=True) if e is not None]
    return Outcome(
        results,
        None in endings or any(r.status == "interrupted" for r in results),
        Cost.of(results, time.perf_counter() - since, at_a_time, cores() if in_processes else 1),
    )


def _packable(plans: Sequence[Plan], watchers: Sequence[WatcherOrFactory]) -> bool:
    """Whether these runs may share a GPU: a watcher follows one run at a time, and four runs with compiled steps were
    seen to hang."""
    one_by_one = any(isinstance(watcher, Watcher) for watcher in watchers)
    return not one_by_one and all(p.settings.execution != "compiled" for p in plans)


def _in_a_line(result: Result, plans: Sequence[Plan]) -> str:
    """What came of a run, and how many of all have ended by now, in this process or in others."""
    name = next(p.label for p in plans if p.folder.absolute() == result.folder)
    done = sum((p.folder / RESULT).is_file() for p in plans)
    outcome = f"{100 * result.final_accuracy:.2f} %" if result.finished else f"{result.status}: {result.message}"
    return f"{done}/{len(plans)} {name} seed {result.settings.seed}: {outcome}, {result.seconds:.0f} s"


def check(plans: Sequence[Plan], jobs: int | None = None, among_others: bool = False) -> None:
    """Raise a `MocaError` if these runs cannot be carried out in their folder, or not so many at a time."""
    if jobs is not None and (type(jobs) is not int or jobs < 1):
        raise MocaError(f"jobs must be a whole number from 1 on (it is {jobs!r})")
    folder = plans[0].folder.parent
    if (folder / SETTINGS).is_file():
        raise MocaError(f"'{folder}' is the folder of a single run; choose another with out=")
    others = {found.parent.name for found in folder.glob(f"*/{SETTINGS}")} - {p.folder.name for p in plans}
    if others and not among_others:
        before = f" ({ASKED} there has the options that were given)" * (folder / ASKED).is_file()
        raise MocaError(
            f"'{folder}' holds runs that are not in this comparison ({len(others)}, such as {min(others)}); compare "
            f"them too, with all their seeds and the same options having several values{before}, remove their "
            "folders, or choose another folder with out="
        )
    for p in plans:
        if p.begun:
            with suppress(Unreadable):  # it fails alone, like a run that cannot be opened; the others are done
                _check_same(p)


def _check_same(p: Plan) -> None:
    """Raise a `MocaError` unless the folder holds this run: with the same settings and, if it is done, the same
    images."""
    if changed := _changed(RunFolder(p.folder).settings(), p.settings):
        raise MocaError(
            f"'{p.folder}' holds a run with other settings ({', '.join(changed)}); choose another folder with out="
        )
    images = p.stream.dataset.fingerprint
    if p.done and Result.load(p.folder).environment.get("data", images) != images:
        raise MocaError(
            f"the images of '{p.settings.data_name}' have changed since run '{p.folder}' was done; bring the old ones "
            "back, or choose another folder with out="
        )


def _changed(kept: Run, asked: Run) -> list[str]:
    """The saved settings that differ from the requested ones, apart from the index of the GPU."""
    runs = [run.model_copy(update={"device": run.device.partition(":")[0]}) for run in (kept, asked)]
    one, other = (run.model_dump(mode="json", by_alias=True) for run in runs)
    return [f"{name}={spelt(getattr(kept, name))}" for name in one if one[name] != other[name]]


def _given_folder(p: Plan, trackers: Sequence[Choice]) -> Path:
    """The run's folder with its settings and trackers, for a child process to resume."""
    with _found(p) as found:
        if RESULT in found:
            return p.folder
        if SETTINGS in found:
            folder = RunFolder(p.folder)
            folder.claim()
        else:
            folder = RunFolder.create(p.folder, p.settings)
        try:
            for tracker in trackers:
                keep(folder, tracker, known_by(folder, tracker))
        finally:
            folder.release()
    return p.folder


def _first_tasks(plans: Sequence[Plan], shared: bool) -> list[FirstTask]:
    """The first task of each run; if `shared`, runs whose first task is identical have one in common. With watchers
    none is shared, since they must see every step of every run."""
    tasks: dict[Hashable, FirstTask] = {}
    made = []
    for p in plans:
        alike = beginning(p.settings) if shared and p.tasks > 1 and not p.done else None
        made.append(FirstTask() if alike is None else tasks.setdefault((id(p.stream), alike), FirstTask()))
        made[-1].to_come.add(p.folder)
    return made


def _job(
    p: Plan,
    title: str,
    bar: ProgressBar,
    watchers: Sequence[WatcherOrFactory],
    first_task: FirstTask,
    ended: Callable[[Result], None],
) -> Job:
    return Job(
        lambda: _open(p, lambda steps, where: bar(steps, f"{title} {where}"), watchers, first_task),
        pick_device(p.settings.device),
        RunFolder(p.folder).keep_failure if p.settings.with_own_code or watchers else None,
        first_task=first_task,
        ended=ended,
        held=lambda: not p.done and RunFolder(p.folder).held,
    )


def _open(p: Plan, advance: Advance, watchers: Sequence[WatcherOrFactory], first_task: FirstTask) -> Running | Result:
    """Start, resume or just read a run, depending on what its folder holds."""
    with first_task.opening(p.folder), _found(p) as found:
        if RESULT in found:
            result = Result.load(p.folder)
            if p.settings.in_python_only:
                result.settings = p.settings  # with its objects
            advance(result.steps, DONE_BEFORE)
            first_task.drop(p.folder)
            return result
        made = [_made(watcher) for watcher in watchers]
        run = Running(p.settings, p.stream, advance, watchers=made, first_task=first_task)
        return run.resume(p.folder) if SETTINGS in found else run.start(p.folder)


@contextmanager
def _found(p: Plan) -> Iterator[list[str]]:
    """Which of settings and result the folder of a run holds at first.

    If the block fails because another process has started or ended the run in the meantime, `Held` is raised, so that
    the run is left to that process. A run started with other settings is an error.
    """
    found = _holds(p.folder)
    if SETTINGS in found:
        _check_same(p)
    try:
        yield found
    except MocaError:
        if found != _holds(p.folder):
            raise Held(f"another process is at '{p.folder}'") from None
        raise


def _holds(folder: Path) -> list[str]:
    return [name for name in (SETTINGS, RESULT) if (folder / name).is_file()]


def _in_the_end(p: Plan, ending: Result | MocaError) -> Result:
    """The final result of a run. If it failed here, another process may have finished it since, which removes the
    traceback; a result with a traceback means that it failed at the very end."""
    if isinstance(ending, Result):
        return ending
    with suppress(MocaError), _found(p) as found:
        if RESULT in found and not (p.folder / TRACEBACK).is_file():
            return Result.load(p.folder)
    return Result(p.settings, p.folder, "failed", str(ending))


def _made(watch: WatcherOrFactory) -> Watcher:
    watcher = watch if isinstance(watch, Watcher) else watch()
    if not isinstance(watcher, Watcher):
        raise MocaError(f"watch takes watchers, or functions that make one: {watch!r} made {watcher!r}")
    return watcher
