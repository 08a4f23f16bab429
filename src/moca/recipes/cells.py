"""Every number of the paper as data: `paper.csv`, one line per cell."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from moca.errors import MocaError, nearest
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
    return Cell(lam=row["lambda"], **{k: v for k, v in row.items() if k != "lambda"} | numbers | {"more": more})  # type: ignore[arg-type]


def exhibits() -> dict[str, str]:
    """The paper's tables and figures, and what each shows."""
    shown: dict[str, str] = load_recipe("paper")["exhibits"]
    return shown


def drawn() -> dict[str, list[str]]:
    """The figures without numbers that can be drawn, with the commands that draw them."""
    commands: dict[str, list[str]] = load_recipe("paper")["drawn"]
    return commands


def named(names: Sequence[str]) -> list[str]:
    """The names of tables and figures as moca has them: table2 may be given as Table2 or 2, fig10 as Figure10."""
    found = []
    for name in names:
        known = re.sub("[^a-z0-9]", "", name.lower().replace("figure", "fig"))
        found.append(f"table{known}" if known.isdigit() else known)
        if found[-1] not in ("all", *exhibits()):
            raise MocaError(f"the paper has no '{name}'; {nearest(name, ['all', *exhibits()])}")
    return found


def in_exhibits(names: Sequence[str]) -> list[Cell]:
    """The cells of these tables and figures, or of all with `all`."""
    chosen = named(names)
    return [cell for cell in cells() if "all" in chosen or cell.exhibit in chosen]


def only(chosen: Sequence[Cell], words: str) -> list[Cell]:
    """The cells that have all of these tags, in our spelling or the paper's; several tags of one kind are alternatives:
    `cifar100,m500,er,derpp`."""
    kinds: dict[str, list[str]] = {}
    for word in filter(None, (word.strip() for word in words.split(","))):
        if (found := _tag(word, chosen)) is None:
            raise MocaError(_unknown(word, chosen))
        kind, tag = found
        kinds.setdefault(kind, []).append(tag)
    left = list(chosen)
    for kind, wanted in kinds.items():
        there = {cell.tags.get(kind, "") for cell in left} - {""}
        left = [cell for cell in left if cell.tags.get(kind) in wanted]
        if not left:
            raise MocaError(f"no cell is all of '{words}'; without '{wanted[0]}' there are {', '.join(sorted(there))}")
    return left


def _tag(word: str, among: Sequence[Cell]) -> tuple[str, str] | None:
    """The kind and spelling of the tag that a word means; None if no cell has it."""
    tags = ((kind, tag) for cell in among for kind, tag in cell.tags.items() if tag)
    return next((found for found in tags if _plain(found[1]) == _plain(word)), None)


@functools.cache
def _plain(word: str) -> str:
    """A word in the form in which spellings are compared: DER++ and derpp, CIFAR-100 and cifar100, 2 and 2.0."""
    numbers_alike = re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):g}", word.lower().replace("++", "pp"))
    return re.sub(r"[^a-z0-9.+]", "", numbers_alike)


def _unknown(word: str, chosen: Sequence[Cell]) -> str:
    """Why no cell can be chosen by a word: what the chosen ones are instead, or which word it may be meant to be."""
    kind, _ = _tag(word, cells()) or ("id", "")
    if kind == "id":
        known = {tag for cell in chosen for kind, tag in cell.tags.items() if tag and kind != "id"}
        return f"no cell is '{word}'; {nearest(word, known)}"
    tables = ", ".join(dict.fromkeys(cell.exhibit for cell in chosen))
    there = ", ".join(dict.fromkeys(cell.tags[kind] for cell in chosen if cell.tags.get(kind)))
    return f"no cell of {tables} is '{word}'" + f"; they are {there}" * bool(there)


def columns(shown: Sequence[Cell]) -> list[str]:
    """The columns that distinguish these cells: the method, and the kinds of tags in which they differ."""
    kinds = dict.fromkeys(
        ["setting", "data", "method", "memory", "head", "lambda", *(k for c in shown for k in c.more), "metric"]
    )
    values = {kind: {cell.tags.get(kind) for cell in shown} for kind in kinds}
    for kind in ("lambda", "zeta"):  # cells without a perturbation have none
        values.setdefault(kind, set()).discard(None)
    return [kind for kind in kinds if kind == "method" or len(values[kind]) > 1]
