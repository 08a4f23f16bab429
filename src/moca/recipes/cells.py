"""Every number of the paper as data: `paper.csv`, one line per cell."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from moca.recipes import load_recipe
from moca.recipes.metrics import recorded, value

if TYPE_CHECKING:
    from moca.engine.result import Result

Status = Literal["claimed", "quoted", "doubtful", "script", "read_off_image"]
"""Where a number comes from: claimed by the paper; quoted in it from elsewhere; doubtful, as it contradicts the rest of
the paper; known only from its plotting scripts, or only from its figures."""


@dataclass(frozen=True)
class Cell:
    """One number of the paper, with the experiment and metric that it belongs to."""

    id: str
    exhibit: str
    """The table or figure: table1, ..., fig1, ..."""
    setting: str
    data: str
    tasks: str
    """Such as 5x20 or 50+10x5; empty if not stated."""
    learner: str
    perturb: str
    head: str
    memory: str
    """As in the settings of a run; empty if there is none or it is not stated."""
    lam: str
    """Lambda, if it has one."""
    more: Mapping[str, str]
    metric: str
    value: float
    std: float
    """The standard deviation as printed; NaN if none is."""
    status: Status
    note: str
    """Remarks on it, separated by semicolons."""

    @property
    def counts(self) -> bool:
        """Whether a reproduction has to reach it."""
        return self.status == "claimed"

    @property
    def where(self) -> str:
        """Setting, data set and memory, as shown in tables."""
        return " ".join(filter(None, (self.setting, self.data, self.tags.get("memory", ""))))

    @property
    def method(self) -> str:
        """Learner and perturbation, if any, as shown in tables."""
        return self.tags["method"].removesuffix("+none")

    @property
    def in_percent(self) -> bool:
        """Whether it is an accuracy, in %."""
        return recorded(self.metric) is None and "accuracy" in self.metric

    @functools.cached_property
    def facts(self) -> dict[str, str]:
        """The values that the rules of `paper.toml` can match."""
        own = {name: str(getattr(self, name)) for name in _NAMES}
        return {**self.more, **own, "lambda": self.lam}

    @functools.cached_property
    def tags(self) -> dict[str, str]:
        """The words by which a cell can be selected: cifar100, m500, er, wap, er+wap, lambda=2.0, ..."""
        named = {"lambda": self.lam, **self.more}
        memory = {"memory": f"m{self.memory.partition(':')[0]}"} if self.memory else {}
        method = {"method": f"{self.learner}+{self.perturb}"}
        plain = {name: str(getattr(self, name)) for name in _NAMES if name not in ("exhibit", "memory")}
        return plain | memory | method | {key: f"{key}={value}" for key, value in named.items() if value}

    def read(self, result: Result) -> float:
        """The same metric of one of our runs, accuracies in %; NaN if the run did not finish."""
        return value(self.metric, result)


_NAMES = ("id", "exhibit", "setting", "data", "tasks", "learner", "perturb", "head", "memory", "metric", "status")


@functools.cache
def cells() -> tuple[Cell, ...]:
    """All cells, in the paper's order."""
    lines = (files("moca.recipes") / "paper.csv").read_text("utf-8").splitlines()
    return tuple(_cell(row) for row in csv.DictReader(lines))


def _cell(row: dict[str, str]) -> Cell:
    more = dict(part.split("=", 1) for part in row["more"].split("; ") if part)
    numbers = {name: float(row[name] or "nan") for name in ("value", "std")}
    return Cell(lam=row.pop("lambda"), **row | numbers | {"more": more})  # type: ignore[arg-type]


def exhibits() -> dict[str, str]:
    """The paper's tables and figures, and what each shows."""
    shown: dict[str, str] = load_recipe("paper")["exhibits"]
    return shown


def drawn() -> dict[str, list[str]]:
    """The figures without numbers that can be drawn, with the commands that draw them."""
    commands: dict[str, list[str]] = load_recipe("paper")["drawn"]
    return commands
