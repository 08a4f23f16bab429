"""Chooses cells of the paper by the words of a user: tables and figures by name, and their cells by tags."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from moca.errors import MocaError, nearest
from moca.recipes.cells import Cell, cells, exhibits


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


def with_tags(chosen: Sequence[Cell], words: str) -> list[Cell]:
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
