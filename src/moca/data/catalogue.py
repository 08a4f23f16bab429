"""The known data sets: the contents, download URLs and benchmark protocols of each, as data.

Each set has a TOML file in `known/`, and beside it the tags of its images (see `differences`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from moca.data.differences import Counts, Reference
from moca.data.protocol import Protocol, setting_of
from moca.errors import MocaError, nearest
from moca.recipes import load_recipe

_FOLDER = files("moca.data") / "known"


@dataclass(frozen=True)
class Download:
    """One file of a data set at its official URL."""

    file: str
    url: str
    size: int
    checksum: str
    """algorithm:digest"""


@dataclass(frozen=True)
class Known:
    """A published data set."""

    name: str
    title: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    """Height, width, channels."""
    counts: Counts
    fingerprint: str
    protocols: Mapping[str, Protocol]
    """The first is the default."""
    orders: Mapping[str, tuple[int, ...]]
    downloads: tuple[Download, ...]
    npm: str | None
    """An npm package that holds the same images."""
    advice: str
    """Where to get the set if it cannot be downloaded."""
    embedded: bool
    """Whether its images come with the package."""
    exact: bool
    """Whether there is one correct copy; of mini-ImageNet there are several, resized in different ways."""

    @property
    def default(self) -> Protocol:
        """The protocol that a run has unless it asks for another."""
        return next(iter(self.protocols.values()))

    @property
    def adding(self) -> str:
        """The call that adds it to the store."""
        source = "" if self.downloads else ", 'PATH'"
        return f"moca.data.add('{self.name}'{source})"

    def fits(self, classes: tuple[str, ...], shape: tuple[int, int, int]) -> bool:
        """Whether a copy with these classes and image shape can be used as, and compared with, this set."""
        return (self.classes, self.shape) == (classes, shape)

    def differs(self, fingerprint: str) -> bool:
        """Whether this fingerprint is not that of the correct copy, if there is exactly one."""
        return self.exact and bool(self.fingerprint) and fingerprint != self.fingerprint

    def reference(self) -> Reference | None:
        """The fingerprint, counts and tags of a correct copy; None if they are not known."""
        path = _FOLDER / f"{self.name}.npy"
        if not self.fingerprint or not path.is_file():
            return None
        with path.open("rb") as file:
            return Reference(self.fingerprint, self.counts, np.load(file, allow_pickle=False))


@cache
def names() -> tuple[str, ...]:
    """The known data sets."""
    return tuple(sorted(p.name.removesuffix(".toml") for p in _FOLDER.iterdir() if p.name.endswith(".toml")))


def descriptions() -> dict[str, str]:
    """A one-line description of each known set, by name."""
    about = {}
    for name in names():
        this = known(name)
        size = f"{len(this.classes)} classes, {sum(map(sum, this.counts)):,} images of {this.shape[0]}x{this.shape[1]}"
        about[name] = f"{this.title}, {size}{' (embedded)' if this.embedded else ''}"
    return about


@cache
def known(name: str) -> Known:
    """A known data set by name."""
    if name not in names():
        raise MocaError(f"unknown data set '{name}'; {nearest(name, names())}")
    raw = tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))
    classes = tuple(raw["classes"])
    protocols = {key: _protocol(key, values, raw["model"]) for key, values in raw.get("protocols", {}).items()}
    counts = (_counts(raw["train"], len(classes)), _counts(raw["test"], len(classes)))
    return Known(
        name=name,
        title=raw["title"],
        classes=classes,
        shape=(raw["shape"][0], raw["shape"][1], raw["shape"][2]),
        counts=counts,
        fingerprint=raw.get("fingerprint", ""),
        protocols=protocols,
        orders={key: tuple(order) for key, order in raw.get("orders", {}).items()},
        downloads=tuple(Download(**values) for values in raw.get("download", [])),
        npm=raw.get("npm"),
        advice=raw.get("advice", ""),
        embedded=raw.get("embedded", False),
        exact=raw.get("exact", True),
    )


def recorded(entry: Mapping[str, Any]) -> Known | None:
    """The known data set that an entry of the store names, if any."""
    return known(entry["known"]) if entry.get("known") else None


def _counts(value: int | list[int], classes: int) -> tuple[int, ...]:
    return (value,) * classes if isinstance(value, int) else tuple(value)


def _protocol(name: str, values: dict[str, Any], model: str) -> Protocol:
    """A protocol of a data set: the recipe of the protocol's name, updated with this set's own values."""
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    given["tasks"] = _tasks(values.get("tasks", ""))
    own = {"model": given.pop("model", model), **given.pop("recipe", {})}
    return Protocol(**given, name=name, recipe={**load_recipe("protocols").get(setting_of(name), {}), **own})


def _tasks(text: str) -> tuple[int, ...]:
    """Classes per task, written '50+10x5': fifty in the first task, then ten tasks of five."""
    sizes: list[int] = []
    for term in filter(None, text.split("+")):
        times, _, each = term.rpartition("x")
        sizes += [int(each)] * int(times or 1)
    return tuple(sizes)
