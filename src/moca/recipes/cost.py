"""About how long runs take on a GPU that several share, judged by what was measured before."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from moca.data import catalogue
from moca.data.protocol import setting_of
from moca.engine.result import Result
from moca.report.grouping import protocol
from moca.settings import Run

_HOW = (
    "GPU minutes are estimates for several runs packed on an NVIDIA H200: steps, times what a step of the method took "
    "in benchmarks (a method that is in none counts as ER; GEM takes far longer), larger images by their pixels; "
)
_ER = 1.13e-3
"""Seconds of a step of ER on an H200, eight runs packed, width 64, 32 + 32 images; where no benchmark is found."""
_PIXELS = 32 * 32


class Pace:
    """How long runs take: by the benchmarks in some folders, put right by runs that were done."""

    def __init__(self, results: Iterable[Result] = (), *places: Path) -> None:
        self.benched = {"er": _ER} | _benched(sorted({path for place in places for path in place.glob("bench*.json")}))
        self.runs = 0
        """That were done on a GPU, which put the estimates right."""
        told: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
        for result in _on_gpu(results):
            self.runs += 1
            run, took = result.settings, result.seconds / result.environment.get("packed", 1)
            for like in _alike(run):
                told[like].append((took, self._by_benchmarks(run, result.steps)))
        # A run that takes turns waits for the others: in their sum the times are right, whatever was packed with what.
        self.longer = {like: sum(t for t, _ in runs) / sum(b for _, b in runs) for like, runs in told.items()}

    @property
    def how(self) -> str:
        """In words."""
        if self.runs:
            return f"{_HOW}put right by {self.runs} runs that were done, those of the same learner first."
        return f"{_HOW}there are no runs to put them right, and they can be short by half or more."

    def seconds(self, run: Run, steps: int) -> float:
        """Of a run of so many steps."""
        longer = next((self.longer[like] for like in _alike(run) if like in self.longer), 1.0)
        return longer * self._by_benchmarks(run, steps)

    def _by_benchmarks(self, run: Run, steps: int) -> float:
        er, learner, perturb = self.benched["er"], run.learner.name, run.perturb.name
        apart = self.benched.get(learner, er) * self.benched.get(f"er+{perturb}", er) / er
        height, width, _ = catalogue.known(run.data_name).shape
        return steps * self.benched.get(f"{learner}+{perturb}", apart) * height * width / _PIXELS


def _alike(run: Run) -> tuple[tuple[str, ...], ...]:
    """What tells how long a run takes, best first: its learner in its setting, any in its setting."""
    setting = setting_of(protocol(run))
    return (setting, run.learner.name), (setting,)


def _on_gpu(results: Iterable[Result]) -> list[Result]:
    """Runs on a GPU that took turns only with others of the usual precision."""
    known = [r for r in results if r.steps and r.settings.data_name in catalogue.names()]
    others = {r.folder.parent for r in known if r.settings.precision not in ("auto", "bf16")}
    return [r for r in known if "NVIDIA" in r.environment.get("device", "") and r.folder.parent not in others]


def _benched(files: Sequence[Path]) -> dict[str, float]:
    """The captured step of each method in benchmarks of width 64 and batch 32 on a GPU, as packed as it was timed, and
    then the newest. What is no benchmark is left out."""
    found: dict[str, tuple[int, str, float]] = {}
    for path in files:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            told = json.loads(path.read_text("utf-8"))
            where = told["hardware"]["device"], told["settings"]["width"], told["settings"]["batch"]
            for cell in told["cells"] if where == ("cuda", 64, 32) else ():
                if cell["way"] == "captured" and cell["ms"]:
                    timed = cell["runs"], told["date"], cell["ms"]["median"] / 1e3
                    found[cell["method"]] = max(timed, found.get(cell["method"], timed))
    return {method: seconds for method, (_, _, seconds) in found.items()}
