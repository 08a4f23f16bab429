"""From a cell of the paper to the runs that it needs, by the rules of `paper.toml`."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Sequence
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
"""Columns of a cell that are options of its perturbation."""
_SAME_EXPERIMENT = ("precision", "execution", "evaluate_every")
"""Settings in which runs of one experiment may differ: they depend on the machine, or only evaluate more often."""


@dataclass(frozen=True)
class Experiment:
    """Settings to run with several seeds; cells that need the same settings share an experiment."""

    given: Run
    """Only the settings that the rules set."""
    run: Run
    """The complete settings, with nothing left open."""

    @functools.cached_property
    def identity(self) -> str:
        """A key that is equal for all runs of the experiment."""
        return identity(self.run)

    @property
    def label(self) -> str:
        """Its name: data set, method and all other settings that are given."""
        others = self.given.model_fields_set - {"data", "learner", "perturb"}
        return f"{self.given.data_name} {label(self.given, others)}"

    @property
    def steps(self) -> int:
        """The number of steps of one run."""
        known, run = catalogue.known(self.run.data_name), self.run
        assert isinstance(run.tasks, tuple)
        each = known.counts[0][0]
        return run.epochs * sum(batches_of(classes * each, run.batch) for classes in run.tasks)

    def recording(self, more: Sequence[str]) -> Experiment:
        """The same experiment, of which only runs count that record this as well."""
        if not more:
            return self
        record = validate(Run, {"record": (*self.given.record, *more)}).record
        given, run = (one.model_copy(update={"record": record}) for one in (self.given, self.run))
        return Experiment(given, run)

    def command(self, seeds: int) -> str:
        """The command that starts its runs."""
        fields = [name for name in Run.model_fields if name in self.given.model_fields_set]
        words = [word for name in fields for word in (f"--{name.replace('_', '-')}", spelt(getattr(self.given, name)))]
        return shlex.join(["moca", "compare", *words, "--seeds", str(seeds)])


def identity(run: Run) -> str:
    """A key that is equal for runs (with complete settings) that differ at most in their seed and machine."""
    return grouping.method(run, without=_SAME_EXPERIMENT)


def waits_for(cell: Cell) -> str:
    """Why a cell cannot be run yet; empty if it can."""
    return next((rule["waits"] for rule in _fitting(cell) if "waits" in rule), "")


def experiment(cell: Cell) -> Experiment:
    """The experiment whose runs yield a cell's number."""
    facts = cell.facts
    learner: dict[str, Any] = {"name": cell.learner}
    perturb: dict[str, Any] = {"name": cell.perturb} | {key: facts[key] for key in _OPTIONS if facts.get(key)}
    settings: dict[str, Any] = {"data": cell.data, "memory": cell.memory}
    for rule in _fitting(cell):
        settings |= rule.get("run", {})
        learner |= rule.get("learner", {})
        perturb |= rule.get("perturb", {})
    unperturbed = cell.perturb == "none" or facts["lambda"] == "0.0"
    settings |= {"learner": learner, "perturb": "" if unperturbed else perturb}
    return _experiment(json.dumps({name: value for name, value in settings.items() if value != ""}))


def departures(cell: Cell) -> dict[str, tuple[float, str]]:
    """Options of the perturbation for which a cell is run with another value than the paper prints: that value, and
    why."""
    facts, last = cell.facts, dict[str, tuple[float, str]]()
    for rule in _fitting(cell):
        last |= {name: (value, rule["why"]) for name, value in rule.get("perturb", {}).items()}
    return {name: found for name, found in last.items() if facts.get(name) and float(facts[name]) != found[0]}


@functools.cache
def rules() -> tuple[dict[str, Any], ...]:
    """The rules that decide how cells are run, each with its reason."""
    return tuple(load_recipe("paper")["rules"])


def _fitting(cell: Cell) -> list[dict[str, Any]]:
    """The rules that apply to a cell."""
    return [
        rule
        for rule in rules()
        if all(_fits(cell.facts.get(name, ""), wanted) for name, wanted in rule.get("where", {}).items())
    ]


def _fits(value: str, wanted: str | list[str]) -> bool:
    return value != "" and any(fnmatchcase(value, one) for one in ([wanted] if isinstance(wanted, str) else wanted))


@functools.cache
def _experiment(settings: str) -> Experiment:
    given = validate(Run, json.loads(settings))
    return Experiment(given, complete(given, _without_images(given)))


def _without_images(run: Run) -> Dataset:
    """A known data set without images, which is all that recipes need: it does not have to be stored here."""
    known = catalogue.known(run.data_name)
    if known.embedded:
        return load(known.name)
    none = Split(torch.empty(0, known.shape[2], *known.shape[:2], dtype=torch.uint8), torch.empty(0, dtype=torch.int64))
    data = Dataset(known.name, none, none, known.classes, known.default, known.protocols, known.orders)
    return data if run.protocol is None else data.using(run.protocol)
