"""Load ended runs from any folders, drop duplicates, and label them by the settings in which they differ."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from moca.engine.listing import Listed, listed, not_begun
from moca.engine.result import Result
from moca.engine.selection import Selection
from moca.errors import MocaError
from moca.measures.analysis import analyses_of
from moca.paths import from_here
from moca.report import grouping
from moca.settings import Label

_IN_THE_PAPER = ("none", "gaussian", "vmf", "doa_old", "doa_new", "vt", "wap")
"""Perturbations in the paper's order; others come after them, by name."""


def load(
    places: Sequence[Path], chosen: bool = False, only: Sequence[Listed] | None = None
) -> tuple[list[tuple[Label, Result]], list[str]]:
    """The labelled runs below some folders, all or `only` these, that have ended; and those left out, each with the
    reason.

    A run that diverged counts as a seed of its method, although it has no numbers.
    """
    runs = list(listed(*places)) if only is None else only
    ended, left_out = list[Result](), _not_begun(places, runs) if only is None else []
    rejected = _rejected(runs)
    for run in runs:
        try:
            if run.folder in rejected and run.folder not in places:
                raise MocaError("tested, but no longer chosen" if run.learned else "no longer chosen")
            ended.append(_ended(run))
        except MocaError as error:
            left_out.append(f"{run.folder}: {error}")
    unique, twins = once(ended)
    left_out = sorted(left_out + twins)
    if not any(result.finished for result in unique):
        left_out += [f"{from_here(result.folder)}: {result.message or result.status}" for result in unique]
        where = ", ".join(map(str, places))
        reason = f": {left_out[0].removeprefix(f'{where}: ')}" if left_out else ""
        more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
        raise MocaError(f"no finished run in {where}{reason}{more}; moca runs lists what is there")
    return labelled(unique, chosen), left_out


def _not_begun(places: Sequence[Path], runs: Sequence[Listed]) -> list[str]:
    """The runs of comparisons at or below these places that have no folder yet, each with the command to begin it."""
    lines = []
    for folder in {run.comparison: None for run in runs if run.comparison}:
        if any(place == folder or place in folder.parents for place in places):
            command = f"moca resume {shlex.quote(str(folder))}"
            lines += [f"{run}: not begun; begin it with: {command}" for run in not_begun(folder)]
    return lines


def _rejected(runs: Sequence[Listed]) -> set[Path]:
    """The runs of comparisons with `choose` that test a combination which is no longer the chosen one."""
    above = {run.folder.parent: None for run in runs}
    selections = {folder: selection for folder in above if (selection := Selection.of(folder))}
    return {
        run.folder
        for run in runs
        if run.folder.parent in selections
        and run.folder.name.rpartition("-s")[0] in selections[run.folder.parent].rejected
    }


def once(results: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """Drop duplicates: runs with the same settings and seed, which are not independent samples.

    Of each set of duplicates, a finished run with the most analyses is kept. Also returns the dropped ones, each with
    the reason.
    """
    alike: dict[tuple[str, str, str], list[Result]] = {}
    for result, stream in zip(results, grouping.streams(results), strict=True):
        run = result.settings
        alike.setdefault((stream, grouping.method(run), str(run.seed)), []).append(result)
    unique, left_out = [], []
    for twins in alike.values():
        best = twins[0] if len(twins) == 1 else max(twins, key=lambda twin: (twin.finished, len(analyses_of(twin))))
        unique.append(best)
        same = f"the same settings and seed as {from_here(best.folder)}"
        left_out += [f"{from_here(twin.folder)}: {same}{_unlike(twin, best)}" for twin in twins if twin is not best]
    return unique, left_out


def _unlike(twin: Result, kept: Result) -> str:
    """How a run differs from the one that is kept in its place, if its accuracy does: a duplicate should not."""
    ours, theirs = (f"{100 * result.final_accuracy:.2f} %" for result in (twin, kept))
    if ours == theirs or not (twin.finished and kept.finished):
        return ""
    made = [[result.environment.get(name, "?") for result in (twin, kept)] for name in ("moca", "torch", "device")]
    differing = [f"{name} {one} / {other}" for name, (one, other) in zip(("moca", "PyTorch", "on"), made, strict=True)
                 if one != other]  # fmt: skip
    return f", but differs: {', '.join([f'{ours} against {theirs}', *differing])}"


def _ended(run: Listed) -> Result:
    if run.state in ("finished", "diverged"):
        return Result.load(run.folder, loaded=False)
    raise MocaError({
        "running": "still running",
        "stopped": f"stopped before its end; resume it with: {run.next}",
        "failed": f"failed; {run.next}",
    }.get(run.state, run.why))  # fmt: skip


def labelled(runs: Sequence[Result], chosen: bool = False) -> list[tuple[Label, Result]]:
    """Label and sort runs: ER first, then the other learners by name, each first without, then with its perturbations.

    Labels are unique per stream. If settings were chosen for each method (`--choose`), its label is the same on
    held-out and on test images.
    """
    by_stream: dict[str, list[Result]] = {}
    for result, stream in zip(runs, grouping.streams(runs, ["validation"] * chosen), strict=True):
        by_stream.setdefault(stream, []).append(result)
    pairs: list[tuple[Label, Result]] = []
    for results in by_stream.values():
        labels = grouping.labels([result.settings for result in results])
        pairs += sorted(zip(labels, results, strict=True), key=_order)
    return pairs


def _order(named: tuple[Label, Result]) -> tuple[object, ...]:
    label, run = str(named[0]), named[1].settings
    learner, perturb = run.learner.name, run.perturb.name
    place = _IN_THE_PAPER.index(perturb) if perturb in _IN_THE_PAPER else len(_IN_THE_PAPER)
    return learner != "er", learner, place, _by_number(label), str(run.seed).zfill(9)


def _by_number(label: str) -> list[tuple[float, str]]:
    """A key for natural sorting: memory=200 comes before memory=1000."""
    parts = re.split(r"([0-9]+(?:\.[0-9]+)?)", label)
    return [(float(part), "") if place % 2 else (-1.0, part) for place, part in enumerate(parts)]
