"""Runs the missing experiments of the paper, and keeps their results as small files that fit in a repository."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from moca.atomic import whole, writing
from moca.data import catalogue
from moca.engine import compare
from moca.engine.device import check_execution
from moca.engine.folder import RESULT, SETTINGS, TASKS, RunFolder
from moca.engine.material import Material
from moca.engine.plan import Plan, folder_name
from moca.engine.result import Result
from moca.errors import Held, MocaError
from moca.measures.analyse import analyse
from moca.measures.analysis import FILE as ANALYSIS
from moca.recipes.experiment import Experiment
from moca.settings import Run, validate
from moca.streams import Stream


def carry_out(
    wanted: Sequence[tuple[Experiment, Sequence[int]]],
    out: Path,
    work: Path,
    device: str = "auto",
    jobs: int | None = None,
    shown: bool = True,
) -> compare.Outcome:
    """Run or resume experiments with these seeds in folders below `work`; copy the results to `out`."""
    gather(work, out)
    material, plans = Material(), []
    for experiment, seeds in wanted:
        for seed in seeds:
            given = {name: getattr(experiment.given, name) for name in experiment.given.model_fields_set}
            run, stream = material(validate(Run, given | {"seed": seed, "device": device}))
            _check_images(run, stream)
            check_execution(run)
            folder = work / folder_name(f"{experiment.label}-s{seed}")
            plans.append(Plan(experiment.label, run, stream, folder))
    if not plans:
        return compare.Outcome([], interrupted=False, cost=None)
    outcome = compare.carry_out(plans, jobs, shown, ended=partial(keep, out=out), among_others=True)
    for result in outcome.results:
        if result.finished and "weights" in result.settings.record and not outcome.interrupted:
            _analyse(result, device)
    gather(work, out)
    return outcome


def _check_images(run: Run, stream: Stream) -> None:
    known = catalogue.known(run.data_name)
    if known.differs(stream.dataset.fingerprint):
        raise MocaError(
            f"the stored copy of '{known.name}' is not {known.title} as published, so that its runs cannot be held "
            f"against the paper's; add a right one (moca data add {known.name}), or try it with moca compare"
        )


def _analyse(result: Result, device: str) -> None:
    """Analyse the final model, unless another process is doing so."""
    folder = RunFolder(result.folder)
    try:
        folder.claim()
    except Held:
        return
    try:
        analyse(result, device=device)
    finally:
        folder.release()


def gather(work: Path, out: Path) -> None:
    """Copy the results of all runs that ended in `work`, including those of an earlier call that was killed."""
    for path in sorted(work.glob(f"*/{RESULT}")):
        keep(Result.load(path.parent), out)


def keep(result: Result, out: Path) -> None:
    """Copy the files of a run that ended, except its steps; the result comes last, so that it is never there alone."""
    if (result.folder / RESULT).is_file():
        target = out / result.folder.name
        with writing(f"folder '{target}'", "choose another with out="):
            target.mkdir(parents=True, exist_ok=True)
            for name in (SETTINGS, TASKS, ANALYSIS, RESULT):
                if name != ANALYSIS or (result.folder / name).is_file():
                    with whole(target / name) as path:
                        shutil.copyfile(result.folder / name, path)
