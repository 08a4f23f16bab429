"""Estimates how long runs take when several share a GPU, from benchmarks and earlier runs."""

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
    "GPU minutes are estimates for several runs packed on an NVIDIA H200: the number of steps, times the duration of "
    "a step of the method in benchmarks (a method without one counts as ER), scaled by the pixels of larger images; "
)
_GEM = " GEM replays its whole memory in every step: with more than the 200 samples of the benchmark it takes longer."
_ER = 1.13e-3
"""Seconds per step of ER on an H200, eight runs packed, width 64, 32 + 32 images; used if no benchmark is found."""
_PIXELS = 32 * 32


class Pace:
    """Estimates run times from the benchmarks in some folders, corrected by finished runs."""

    def __init__(self, results: Iterable[Result] = (), *places: Path) -> None:
        benchmarks = sorted({path for place in places for path in place.glob("bench*.json")})
        self.captured = {"er": _ER} | _benched(benchmarks, "captured")
        self.eager = _benched(benchmarks, "eager")
        self.benchmarked = {*self.captured, *self.eager} > {"er"}
        """Whether another method was timed; if not, every method counts as ER."""
        self.runs = 0
        """The number of finished runs on a GPU, which correct the estimates."""
        times: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
        for result in _on_gpu(results):
            self.runs += 1
            run, took = result.settings, result.seconds / result.environment.get("packed", 1)
            for kind in _kinds(run):
                times[kind].append((took, self._by_benchmarks(run, result.steps)))
        # A packed run also waits for the others, so only the sum over runs is right, whatever was packed with what.
        self.correction = {kind: sum(t for t, _ in runs) / sum(b for _, b in runs) for kind, runs in times.items()}

    @property
    def how(self) -> str:
        """How the estimates were made, in words."""
        if self.runs:
            return f"{_HOW}corrected by {self.runs} finished runs, those of the same learner first.{_GEM}"
        return f"{_HOW}there are no finished runs to correct them, and they can be too low by half or more.{_GEM}"

    def seconds(self, run: Run, steps: int) -> float:
        """The estimated seconds of a run of so many steps."""
        correction = next((self.correction[kind] for kind in _kinds(run) if kind in self.correction), 1.0)
        return correction * self._by_benchmarks(run, steps)

    def _by_benchmarks(self, run: Run, steps: int) -> float:
        er, learner, perturb = self.captured["er"], run.learner.name, run.perturb.name
        timed = self.captured if run.learner.make().static else self.eager  # in the way in which it runs
        combined = timed.get(learner, er) * self.captured.get(f"er+{perturb}", er) / er
        height, width, _ = catalogue.known(run.data_name).shape
        return steps * timed.get(f"{learner}+{perturb}", combined) * height * width / _PIXELS


def _kinds(run: Run) -> tuple[tuple[str, ...], ...]:
    """The kinds of runs whose times are comparable, best first: the same learner and setting, then the same setting."""
    setting = setting_of(protocol(run))
    return (setting, run.learner.name), (setting,)


def _on_gpu(results: Iterable[Result]) -> list[Result]:
    """Runs on an NVIDIA GPU, without those that may have been packed with runs of another precision."""
    known = [r for r in results if r.steps and r.settings.data_name in catalogue.names()]
    others = {r.folder.parent for r in known if r.settings.precision not in ("auto", "bf16")}
    return [r for r in known if "NVIDIA" in r.environment.get("device", "") and r.folder.parent not in others]


def _benched(files: Sequence[Path], way: str) -> dict[str, float]:
    """Seconds of a step of each method, run in this way, from benchmarks with width 64 and batch 32 on a GPU. Of
    several, the one with the most packed runs counts, then the newest. Files that are no benchmarks are skipped."""
    found: dict[str, tuple[int, str, float]] = {}
    for path in files:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            bench = json.loads(path.read_text("utf-8"))
            conditions = bench["hardware"]["device"], bench["settings"]["width"], bench["settings"]["batch"]
            for cell in bench["cells"] if conditions == ("cuda", 64, 32) else ():
                if cell["way"] == way and cell["ms"]:
                    timed = cell["runs"], bench["date"], cell["ms"]["median"] / 1e3
                    found[cell["method"]] = max(timed, found.get(cell["method"], timed))
    return {method: seconds for method, (_, _, seconds) in found.items()}
