"""The Python interface: the same runs as on the command line, plus user-defined parts."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from moca import user_tracebacks
from moca.data.loading import placed
from moca.defaults import choices_in_words, unused_in_words
from moca.engine import choose as choosing
from moca.engine import compare as comparing
from moca.engine import request, tracking
from moca.engine.compare import Outcome
from moca.engine.device import pick_device
from moca.engine.folder import RunFolder, new_folder
from moca.engine.intent import Intent
from moca.engine.listing import RUNS
from moca.engine.material import Material
from moca.engine.pack import Job, take_turns
from moca.engine.plan import Plan, folder_name, in_short, label
from moca.engine.progress import ProgressBar, Stages
from moca.engine.request import ASKED, CHOOSING
from moca.engine.result import Result
from moca.engine.run import Running, refuse_ended
from moca.engine.schedule import Schedule
from moca.engine.selection import with_history
from moca.engine.tracked import Tracked
from moca.engine.watch import Watcher
from moca.errors import Interrupted, MocaError
from moca.parts import TRACKERS, called, kind_of
from moca.report.chosen import Chosen
from moca.report.comparison import Comparison
from moca.report.loading import labelled, once
from moca.settings import Label, Run, validate
from moca.settings.base import whole_number
from moca.settings.method import METHODS
from moca.settings.suggestions import refuse_unknown_keywords
from moca.streams import Stream

C = TypeVar("C", bound=Comparison)
_SEQUENCES = ("data", "tasks", "class_order", "record")
"""Settings of which one value may be a sequence."""


def run(
    *,
    out: str | Path | None = None,
    progress: bool = False,
    keep_model: bool = True,
    watch: Watcher | Sequence[Watcher] = (),
    track: Any = (),
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Result:
    """Train one learner on a stream of tasks; after each task, test it on all tasks.

    Args:
        out: The folder for the run's files; by default a new one under `runs`.
        progress: Whether to show a progress bar.
        keep_model: Whether to save the final weights in the folder, for `analyse` and `load_model`.
        watch: Your own watchers, which are notified of steps, tasks and the end of the run.
        track: A tracker by name, such as `"tensorboard"`, or a list of them.
        say: Called with one line for the settings chosen for you, and one for settings of yours that have no effect:
            `say=print`.
        **settings: The options of `moca run --help`, under the same names: `data`, `learner`, `perturb`, `memory`,
            `tasks`, `epochs`, `model`, `seed`, `device`, ... Settings left out come from the data set's recipe. `data`
            may also be a `Dataset` or `Stream`, images and labels as a pair of arrays (or two pairs, for training and
            test), or a torch `Dataset`; `model` a torch module or a function that makes one; `learner` and `perturb`
            your own class or object.

    Returns:
        The accuracies and the metrics computed from them; the run folder holds the same.

    Raises:
        MocaError: If the run cannot be done; the message says in one line why, and what to do.

    Example:
        >>> result = moca.run(learner="derpp", perturb="gaussian:lambda=0.5", epochs=2, seed=1)
        >>> result.status, len(result.accuracy_over_tasks)
        ('finished', 5)
    """
    refuse_unknown_keywords(run, settings)
    given, trackers = _checked(settings), tracking.chosen(track)
    with Stages(progress) as reading:
        complete, stream = Material(reading)(given)
    lines = [*choices_in_words([(given, complete, stream.dataset)]), unused_in_words(settings, [complete])]
    name = str(label(given.model_copy(update={"learner": complete.learner})))
    with _place(out, folder_name(f"{given.data_name}-{name}-s{given.seed}")) as folder:
        begun = partial(_tell, say, lines)
        watchers = [*_several(watch), *map(Tracked, trackers)]
        return _alone(Running.start, complete, stream, folder, name, progress, keep_model, watchers, begun)


def resume(
    out: str | Path,
    *,
    progress: bool | Callable[[int, str], None] = False,
    keep_model: bool = True,
    watch: Watcher | Sequence[Watcher] = (),
    track: Any = (),
    **own: Any,
) -> Result:
    """Resume an interrupted run exactly where it stopped, with the trackers it had.

    Args:
        out: The run's folder.
        progress: Whether to show a progress bar; or a function that is called with the number of steps just done and
            where the run is.
        keep_model: As in `run`.
        watch: As in `run`.
        track: Trackers in addition to those the run had.
        **own: Parts of the run that exist only in Python, passed again: `moca.resume(folder, data=mine, model=net)`.
    """
    refuse_unknown_keywords(resume, own)
    folder = _path(out)
    refuse_ended(folder)
    run_folder, given = RunFolder.open(folder), tracking.chosen(track)
    saved = run_folder.settings()
    settings = validate(Run, dict(saved) | own).with_options_of(saved.model_dump(mode="json", by_alias=True))
    complete, stream = Material()(settings)
    trackers = {tracker.name: tracker for tracker in (*tracking.kept(run_folder), *given)}
    watchers = [*_several(watch), *map(Tracked, trackers.values())]
    name = in_short(settings)
    return _alone(Running.resume, complete, stream, folder, name, progress, keep_model, watchers)


def resume_comparison(
    out: str | Path,
    *,
    jobs: int | None = None,
    progress: bool = False,
    track: Any = None,
    say: Callable[[str], None] | None = None,
) -> Comparison:
    """Resume a stopped comparison, including runs that were not started yet, with the options it was last called with.

    Args:
        out: The comparison's folder.
        jobs: As in `compare`, instead of what it had.
        progress: As in `compare`.
        track: As in `compare`, instead of what it had.
        say: As in `compare`.
    """
    folder = _path(out)
    options, _ = request.kept(folder)
    given = {name: value for name, value in {"jobs": jobs, "track": track}.items() if value is not None}
    return compare(**options | given, out=folder, progress=progress, say=say)


def compare(
    *,
    seeds: int | Sequence[int] = 1,
    methods: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    progress: bool = False,
    watch: comparing.WatcherOrFactory | Sequence[comparing.WatcherOrFactory] = (),
    track: Any = (),
    choose: Any = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Run every combination of the settings that are given as lists, with every seed.

    Calling it again with the same `out` resumes the comparison; this also adds seeds, and values of settings that had
    several. Several processes can call it at the same time and share the runs. A learner and a perturbation that are
    incompatible are skipped with a warning. A run that fails, even in your own code, does not stop the others: the
    returned comparison's `mistakes` say which runs failed, and why.

    Args:
        seeds: The number of seeds (0, 1, ...), or a list of seeds.
        methods: Learners with or without a perturbation: `["er", "er+wap", "derpp+gaussian:lambda=1"]`; instead of
            `learner` and `perturb`, all values of which are combined.
        out: The folder of the comparison, with a subfolder for each run; by default a new one under `runs`.
        jobs: How many runs go at a time: processes on a CPU (by default 1), packed on a GPU (by default 8). On a CPU,
            runs that are watched or have parts that exist only in Python go one after the other.
        progress: Whether to show a progress bar.
        watch: Watchers, or factories that make one for each run (a `Watcher` class or a function). Runs can share a
            GPU only with factories.
        track: A tracker by name, or a list of them; every run has its own.
        choose: The share of the training images to hold out, such as 0.1. All combinations are first evaluated on the
            held-out images, with separate seeds, as many as `seeds` unless given (`"0.1:seeds=2"`). Then the best
            combination of each learner with each perturbation is run on the test images. Returns a
            `moca.report.chosen.Chosen`.
        say: Called with one line for the settings chosen for you, and one for settings of yours that have no effect.
        **settings: As in `run`; a list gives several values to compare.

    Example:
        >>> comparison = moca.compare(perturb=["none", "gaussian"], seeds=2, epochs=1)
        >>> list(comparison)
        ['er', 'er+gaussian']
        >>> gain = comparison["er+gaussian"].spread("final_accuracy").mean
    """
    numbers, given = _numbers(seeds), _varied(settings, methods)
    with suppress(TypeError, ValueError):
        jobs = None if jobs is None else whole_number(jobs)
    trackers, watchers = tracking.chosen(track), _several(watch, or_makers=True)
    carry_out = partial(comparing.carry_out, jobs=jobs, shown=progress, watchers=watchers, trackers=trackers)
    with _place(out, "compare") as folder:
        with Stages(progress) as reading:
            intent = Intent.of(given, numbers, choose, folder, reading)
        plans, how, held_out = intent.plans, intent.how, intent.held_out
        words = request.options(given, plans, trackers, seeds=numbers, jobs=jobs, choose=how and how.as_given())

        def begun() -> None:
            request.keep(folder, words, [p.folder.name for p in plans] if how is None else None)
            _tell(say, intent.lines)

        if how is None:
            outcome = carry_out(plans, begun=begun)
            return _ended(Comparison(_named(outcome.results), folder, outcome.cost), outcome, folder)
        varied = [name for name, values in given.items() if isinstance(values, list)]
        # These names, unlike those of loaded runs, say what was chosen.
        names = {p.folder.absolute(): label(p.given, varied) for p in [*held_out, *plans] if p.given}
        outcome = carry_out(held_out, begun=begun)
        by = _ended(Comparison(_named(outcome.results, names), folder / CHOOSING, outcome.cost), outcome, folder)
        picks = with_history(_picked(plans, held_out, by), folder)
        best = [p for p in plans if p.label in [pick.label for pick in picks]]
        outcome = carry_out(best, among_others=True)
        return _ended(
            Chosen(_named(outcome.results, names), folder, outcome.cost, by, picks, how.share), outcome, folder
        )


def intended(
    *,
    seeds: int | Sequence[int] = 1,
    methods: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    progress: bool = False,
    track: Any = (),
    choose: Any = None,
    **settings: Any,
) -> Intent:
    """What `compare` would do with the same arguments; they are checked, and nothing is written."""
    numbers, given = _numbers(seeds), _varied(settings, methods)
    tracking.asked(track)
    with _place(out, "compare") as folder, Stages(progress) as reading:
        intent = Intent.of(given, numbers, choose, folder, reading)
        comparing.check(intent.first, jobs)
    return intent


def _numbers(seeds: Any) -> list[int]:
    """The seeds, given by their number or as a list."""
    try:
        several = seeds if isinstance(seeds, Iterable) and not isinstance(seeds, str) else range(whole_number(seeds))
        return list(map(whole_number, several))
    except (TypeError, ValueError):
        raise MocaError(f"seeds must be a whole number, or several (they are {seeds!r})") from None


def _varied(settings: dict[str, Any], methods: Any) -> dict[str, Any]:
    """The settings of a comparison, checked for unknown names; methods are one of them."""
    refuse_unknown_keywords(compare, settings)
    given = _placed(_recorded(settings))
    if methods is None:
        return given
    if not isinstance(methods, str | list | tuple):
        raise MocaError(f"methods must be a list such as ['er', 'er+wap'] (they are {methods!r})")
    return given | {METHODS: [methods] if isinstance(methods, str) else list(methods)}


def _picked(plans: Sequence[Plan], held_out: Sequence[Plan], by: Comparison) -> list[choosing.Pick]:
    """The best combination of each method, by its accuracy on held-out images."""
    accuracies = choosing.accuracies(held_out, by.results)
    found = [choosing.best(labels, accuracies) for labels in choosing.methods(plans)]
    if picks := [pick for pick in found if pick is not None]:
        return picks
    raise MocaError(f"nothing can be chosen: no combination finished with every seed; see {held_out[0].folder.parent}")


def _named(results: Sequence[Result], names: Mapping[Path, Label] | None = None) -> list[tuple[Label, Result]]:
    """The results, each with the name of its method: `names` has it by folder; by default it is the same as when the
    runs are loaded."""
    if names is None:  # an older moca ran learners without a memory with each: the same runs, not more seeds
        kept = {result.folder for result in once(results)[0]}
        results = [result for result in results if result.folder in kept or result.settings.uses_memory]
        names = {result.folder: name for name, result in labelled(results)}
    return [(names[result.folder], result) for result in results]


def _ended(comparison: C, outcome: Outcome, folder: Path) -> C:
    """Save and return a comparison whose runs have ended; raise if they were stopped, so that resuming `folder`
    continues them, or if all of them failed."""
    mistakes, all_failed = comparison.mistakes, len(comparison.mistakes) == len(outcome.results)
    failures = "".join(f"; {mistake}" for mistake in mistakes)
    if not all_failed:
        try:
            comparison.save()
        except MocaError as error:
            raise MocaError(f"{error}{failures}") from None
    if outcome.interrupted:
        path = shlex.quote(str(folder))
        again = f"moca resume {path}" if (folder / ASKED).is_file() else f"the same comparison with out={path}"
        raise Interrupted(f"stopped; {again} continues it{failures}")
    if all_failed:
        if not any(result.folder.exists() for result in outcome.results):
            request.forget(folder)
        others = " (all other runs failed too)" if len(mistakes) > 1 else ""
        raise MocaError(f"{mistakes[0]}{others}")
    return comparison


def _tell(say: Callable[[str], None] | None, lines: Sequence[str]) -> None:
    if say:
        for line in filter(None, lines):
            say(line)


def _alone(
    begin: Callable[[Running, Path], Running],
    settings: Run,
    stream: Stream,
    folder: Path,
    name: str,
    progress: bool | Callable[[int, str], None],
    keep_model: bool,
    watchers: Sequence[Watcher],
    begun: Callable[[], None] | None = None,
) -> Result:
    """Carry out one run; `begun` is called once it has started without an error."""
    with ProgressBar(Schedule(settings, stream).total, name, shown=progress is True) as bar:
        advance = progress if callable(progress) else bar

        def opened() -> Running:
            run = begin(Running(settings, stream, advance, keep_model, watchers), folder)
            if begun:
                begun()
            return run

        try:
            (ending,) = take_turns([Job(opened, pick_device(settings.device))], at_a_time=1)
        except Exception as error:
            if settings.with_own_code or watchers:
                user_tracebacks.note(error, RunFolder(folder).keep_failure(error))
            raise
    if isinstance(ending, MocaError):
        raise ending
    if ending is None or ending.status == "interrupted":
        raise Interrupted(ending.message if ending else "stopped")
    return ending


def _several(watch: Any, or_makers: bool = False) -> list[Any]:
    """`watch` as a checked list of watchers; with `or_makers`, watcher classes and factories are also allowed."""
    watchers: list[Any] = list(watch) if isinstance(watch, list | tuple) else [watch]
    for watcher in watchers:
        if kind_of(watcher) is TRACKERS:
            raise MocaError(f"'{called(watcher)}' is a tracker; pass it as track=, not as watch=")
        makes = callable(watcher) and not (isinstance(watcher, type) and not issubclass(watcher, Watcher))
        fits = isinstance(watcher, Watcher) or (or_makers and makes)
        if not fits or isinstance(getattr(watcher, "wants", ()), str):
            raise MocaError(
                f"watch takes objects of classes derived from moca.Watcher, whose wants is a tuple, not {watcher!r}"
            )
    return watchers


def _checked(settings: dict[str, Any]) -> Run:
    for name, value in settings.items():
        if isinstance(value, list | tuple) and name not in _SEQUENCES:
            raise MocaError(f"a run has one {name}; to run several, use moca.compare")
    return validate(Run, _placed(settings))


def _recorded(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with `record` as a tuple: several names in it are one value, not several runs."""
    names = settings.get("record")
    return settings | {"record": tuple(names)} if isinstance(names, list) else settings


def _placed(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with absolute data paths, so that a run can be resumed from any working directory."""
    where = settings.get("data_dir")
    if isinstance(where, str | Path):
        settings = settings | {"data_dir": str(Path(where).expanduser().resolve())}

    def full(data: Any) -> Any:
        if isinstance(data, list):
            return [full(one) for one in data]
        named = isinstance(data, str | Path) and str(data).strip() and not isinstance(where, list)
        return placed(data, where) if named else data

    return settings | {"data": full(settings["data"])} if "data" in settings else settings


def _path(out: str | Path) -> Path:
    """`out` as a path, checked."""
    if not isinstance(out, str | os.PathLike):
        raise MocaError(f"out= is the path of a folder, not {out!r}")
    if not str(out).strip() or "\0" in str(out):
        raise MocaError(f"out={str(out)!r} cannot be the path of a folder; give another, or leave it out")
    return Path(out)


@contextmanager
def _place(out: str | Path | None, name: str) -> Iterator[Path]:
    """The folder `out`, or a new one under `runs` (name, name-2, ...), which is removed again if it stays empty."""
    if out is not None:
        yield _path(out)
        return
    folder = new_folder(RUNS / name)
    try:
        yield folder
    finally:
        with suppress(OSError):  # not empty
            folder.rmdir()
            RUNS.rmdir()
