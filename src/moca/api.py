"""The Python interface: the same runs as on the command line."""

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from moca.data.loading import placed
from moca.engine import compare as comparing
from moca.engine import run as running
from moca.engine.device import pick_device
from moca.engine.folder import RunFolder, make_folder
from moca.engine.pack import Entrant, take_turns
from moca.engine.progress import ProgressBar
from moca.engine.result import Result
from moca.engine.trainer import count_steps
from moca.errors import Interrupted, MocaError
from moca.report.comparison import Comparison
from moca.settings import Run, validate

RUNS = Path("runs")


def run(*, out: str | Path | None = None, progress: bool = False, keep_model: bool = True, **settings: Any) -> Result:
    """Train one learner on one stream: `moca.run(learner="er", perturb="wap", data="digits", memory=100)`.

    `settings` are those of `moca run --help`. The run's files go to `out`, by default a new folder under `runs`.
    """
    checked = validate(Run, _placed(settings))
    name = comparing.label(checked)
    title = f"{Path(checked.data).name}-{name}-s{checked.seed}"
    total = count_steps(checked, running.build_stream(checked))
    with _place(out, comparing.folder_name(title)) as folder, ProgressBar(total, name, shown=progress) as bar:
        return _alone(checked, lambda: running.start(checked, folder, bar, keep_model))


def resume(out: str | Path, *, progress: bool = False, keep_model: bool = True) -> Result:
    """Go on with an interrupted run exactly where it stopped."""
    settings = RunFolder.open(Path(out)).settings()
    total = count_steps(settings, running.build_stream(settings))
    with ProgressBar(total, comparing.label(settings), shown=progress) as bar:
        return _alone(settings, lambda: running.resume(Path(out), bar, keep_model))


def compare(
    *,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    jobs: int | None = None,
    progress: bool = False,
    **settings: Any,
) -> Comparison:
    """Run every combination of the settings given as lists: `moca.compare(perturb=["none", "wap"], seeds=5)`.

    `jobs` are the runs at a time: processes on a CPU (by default 1), packed on a GPU (by default 8). Calling it again
    with the same `out` goes on where it stopped; more seeds, and more values of settings that had several, can be added
    so. `mistakes` tells which runs could not be done.
    """
    try:
        chosen = list(range(seeds) if isinstance(seeds, int) else map(operator.index, seeds))
    except TypeError:
        raise MocaError(f"seeds must be a whole number, or several (they are {seeds!r})") from None
    with _place(out, "compare") as folder:
        plans = comparing.plan(_placed(settings), chosen, folder)
        outcome = comparing.carry_out(plans, jobs, progress)
    labels = {p.folder: p.label for p in plans}
    results = [(labels[r.folder], r) for r in outcome.results]
    comparison = Comparison(results, folder, outcome.cost, outcome.mistakes)
    if outcome.results:
        comparison.save()
    if outcome.interrupted:
        told = "".join(f"; {mistake}" for mistake in outcome.mistakes)
        raise Interrupted(f"stopped; the same comparison with out={folder} goes on{told}")
    if outcome.mistakes and not outcome.results:
        raise MocaError(outcome.mistakes[0])
    return comparison


def _alone(settings: Run, open_run: Callable[[], running.Running]) -> Result:
    """Carry out one run."""
    (ending,) = take_turns([Entrant(open_run, pick_device(settings.device))], seats=1)
    if isinstance(ending, MocaError):
        raise ending
    if ending is None or ending.status == "interrupted":
        raise Interrupted(ending.message if ending else "stopped")
    return ending


def _placed(settings: dict[str, Any]) -> dict[str, Any]:
    """The same with folders by their absolute paths: a run must find its images from wherever it is resumed."""
    where = settings.get("data_dir")
    if isinstance(where, str | Path):
        settings = settings | {"data_dir": str(Path(where).expanduser().resolve())}

    def full(data: Any) -> Any:
        if isinstance(data, list):
            return [full(one) for one in data]
        return placed(data, where) if isinstance(data, str | Path) and not isinstance(where, list) else data

    return settings | {"data": full(settings["data"])} if "data" in settings else settings


@contextmanager
def _place(out: str | Path | None, name: str) -> Iterator[Path]:
    """The folder asked for, or a new one under `runs`: name, name-2, ...; it goes again if nothing is written there."""
    if out:
        yield Path(out)
        return
    folder, number = RUNS / name, 1
    while not make_folder(folder):
        number += 1
        folder = RUNS / f"{name}-{number}"
    try:
        yield folder
    finally:
        with suppress(OSError):  # not empty
            folder.rmdir()
            RUNS.rmdir()
