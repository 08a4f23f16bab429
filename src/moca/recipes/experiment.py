"""From a cell of the paper to the runs that it needs, by the rules of `paper.toml`."""

from __future__ import annotations

import functools
import json
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch

from moca.data import Dataset, Split, catalogue, load
from moca.defaults import complete
from moca.engine.plan import label
from moca.engine.schedule import batches_of
from moca.recipes import load_recipe
from moca.recipes.cells import Cell
from moca.report import grouping
from moca.settings import Run, spelt, validate

_OPTIONS = ("lambda", "fixed_angle", "steps")
"""What a cell says about its perturbation in the perturbation's own words."""
_NO_OTHER = ("precision", "execution", "evaluate_every")
"""What makes no other run of a paper's cell but the same one on another machine, or looked at more often."""


@dataclass(frozen=True)
class Experiment:
    """Settings that are to be run with several seeds; cells that need the same ones share it."""

    given: Run
    """Only what the rules set."""
    run: Run
    """With nothing left open."""

    @functools.cached_property
    def identity(self) -> str:
        """What its runs are known by."""
        return identity(self.run)

    @property
    def label(self) -> str:
        """What it is called: data set, method and all else that is given."""
        others = self.given.model_fields_set - {"data", "learner", "perturb"}
        return f"{self.given.data_name} {label(self.given, others)}"

    @property
    def steps(self) -> int:
        """Of one run."""
        known, run = catalogue.known(self.run.data_name), self.run
        assert isinstance(run.tasks, tuple)
        each = known.counts[0][0]
        return run.epochs * sum(batches_of(classes * each, run.batch) for classes in run.tasks)

    def command(self, seeds: int) -> str:
        """What makes its runs, by themselves."""
        fields = [name for name in Run.model_fields if name in self.given.model_fields_set]
        words = [word for name in fields for word in (f"--{name.replace('_', '-')}", spelt(getattr(self.given, name)))]
        return shlex.join(["moca", "compare", *words, "--seeds", str(seeds)])


def identity(run: Run) -> str:
    """Equal for runs, with nothing left open, that differ at most in their seed and where they were run."""
    return grouping.method(run, without=_NO_OTHER)


def waits_for(cell: Cell) -> str:
    """Why a cell cannot be run yet; empty if it can."""
    return next((rule["waits"] for rule in _fitting(cell) if "waits" in rule), "")


def experiment(cell: Cell) -> Experiment:
    """The experiment that a cell is a number of."""
    told = cell.facts
    learner: dict[str, Any] = {"name": cell.learner}
    perturb: dict[str, Any] = {"name": cell.perturb} | {key: told[key] for key in _OPTIONS if told.get(key)}
    settings: dict[str, Any] = {"data": cell.data, "memory": cell.memory}
    for rule in _fitting(cell):
        settings |= rule.get("run", {})
        learner |= rule.get("learner", {})
        perturb |= rule.get("perturb", {})
    still = cell.perturb == "none" or told["lambda"] == "0.0"
    settings |= {"learner": learner, "perturb": "" if still else perturb}
    return _experiment(json.dumps({name: value for name, value in settings.items() if value != ""}))


def departures(cell: Cell) -> list[str]:
    """Where a cell is run with another strength than the paper prints beside it, and why."""
    told, last = cell.facts, dict[str, tuple[float, str]]()
    for rule in _fitting(cell):
        last |= {name: (value, rule["why"]) for name, value in rule.get("perturb", {}).items()}
    return [
        f"{cell.perturb} is run with {name} = {value:g} instead of {told[name]}: {why}"
        for name, (value, why) in last.items()
        if told.get(name) and float(told[name]) != value
    ]


@functools.cache
def rules() -> tuple[dict[str, Any], ...]:
    """What decides how cells are run, each with its reason."""
    return tuple(load_recipe("paper")["rules"])


def _fitting(cell: Cell) -> list[dict[str, Any]]:
    told = cell.facts
    return [
        rule
        for rule in rules()
        if all(_fits(told.get(name, ""), wanted) for name, wanted in rule.get("where", {}).items())
    ]


def _fits(value: str, wanted: str | list[str]) -> bool:
    return value != "" and any(fnmatchcase(value, one) for one in ([wanted] if isinstance(wanted, str) else wanted))


@functools.cache
def _experiment(settings: str) -> Experiment:
    given = validate(Run, json.loads(settings))
    return Experiment(given, complete(given, _without_images(given)))


def _without_images(run: Run) -> Dataset:
    """A known data set as far as recipes ask for it: it need not be stored to say how it would be learnt."""
    known = catalogue.known(run.data_name)
    if known.embedded:
        return load(known.name)
    none = Split(torch.empty(0, known.shape[2], *known.shape[:2], dtype=torch.uint8), torch.empty(0, dtype=torch.int64))
    default = next(iter(known.protocols.values()))
    data = Dataset(known.name, none, none, known.classes, default, known.protocols, known.orders)
    return data if run.protocol is None else data.using(run.protocol)
