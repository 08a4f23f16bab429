"""Lists run folders with their state, accuracy and settings, read as plain JSON. Works without torch."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from moca import __version__
from moca.engine.folder import CHECKPOINT, LOCK, MARKS, RESULT, SETTINGS, TASKS, TRACEBACK
from moca.engine.intact import intact
from moca.engine.request import above, kept
from moca.errors import MocaError
from moca.locking import is_held
from moca.settings import VARIANTS
from moca.settings.declared import unknown_settings
from moca.settings.migration import renewed

RUNS = Path("runs")
"""The default folder for runs."""

State = Literal["finished", "running", "stopped", "failed", "diverged", "damaged", "older"]
"""`older` means: written by a version of moca whose settings this one cannot read."""
STATES: tuple[State, ...] = get_args(State)

_NUMBERS = ("average_incremental_accuracy", "forgetting")
"""Numbers of result.json that are listed as JSON, beside the final accuracy."""


def run_folders(*places: Path) -> list[Path]:
    """All run folders at or below the given places; run folders are never nested."""
    found: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            why = f"'{place}' is a file, not a folder of runs" if place.exists() else f"folder '{place}' does not exist"
            raise MocaError(why)
        for folder, below, names in os.walk(place):
            below.sort()
            if not set(MARKS).isdisjoint(names):
                found.setdefault(Path(folder))
            if SETTINGS in names:
                below.clear()
    return list(found)


@dataclass(frozen=True)
class Listed:
    """A run as described by its JSON files, which are not validated."""

    folder: Path
    state: State
    why: str = ""
    """What is wrong with it, if anything."""
    data: str = ""
    learner: str = ""
    perturb: str = ""
    seed: int | None = None
    learned: int = 0
    """How many tasks it has learned."""
    accuracy: float = math.nan
    """Final accuracy, if finished."""
    numbers: dict[str, float | None] = field(default_factory=dict, repr=False)
    """Other numbers of a finished run; None if undefined, such as the forgetting of a single task."""
    version: str = ""
    """The version of moca that ended it."""
    held_out: bool = False
    """Whether it is tested on a held-out share of the training data instead of the test set."""
    started: str = ""
    """Start time in UTC, as ISO 8601; for a run that has not ended, when its settings were written."""
    seconds: float = math.nan
    """Training time."""
    size: int = 0
    """Total size of its files in bytes."""
    in_python_only: bool = False
    """Whether it can only be resumed from Python."""
    from_the_beginning: bool = False
    """Whether it has learned tasks, but its checkpoint is gone."""
    comparison: Path | None = None
    """The folder of the comparison that it belongs to, if that can be resumed as a whole."""
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    """The saved settings, with names of older versions updated."""

    @property
    def method(self) -> str:
        """Learner and perturbation."""
        return self.learner + f"+{self.perturb}" * (self.perturb not in ("", "none"))

    @property
    def next(self) -> str:
        """What to do with it next: usually a command."""
        path = shlex.quote(str(self.folder))
        whole = shlex.quote(str(self.comparison or self.folder))
        resume = "moca.resume(...) in Python" if self.in_python_only else f"moca resume {whole}"
        if self.from_the_beginning:
            resume += f" (from the beginning: its {CHECKPOINT} is gone)"
        only_the_result = self.state == "damaged" and self.settings
        unreadable = f"{self.why}: {resume}" if self.comparison or only_the_result else self.why
        return {
            "finished": f"moca report {path}",
            "running": "wait for it",
            "stopped": resume,
            "failed": f"see {TRACEBACK} there, then {resume}",
            "diverged": "run it again with a smaller lr",
            "damaged": unreadable,
            "older": unreadable,
        }[self.state]

    def facts(self) -> dict[str, Any]:
        """The listed values as a JSON object."""
        return {
            "folder": str(self.folder), "state": self.state, "why": self.why, "method": self.method,
            "learner": self.learner, "perturb": self.perturb, "data": self.data, "seed": self.seed,
            "learned": self.learned, "accuracy": None if math.isnan(self.accuracy) else self.accuracy,
            **{name: self.numbers.get(name) for name in _NUMBERS},
            "held_out": self.held_out, "started": self.started,
            "seconds": None if math.isnan(self.seconds) else self.seconds, "size": self.size, "next": self.next,
            "moca": self.version or None, "settings": self.settings,
        }  # fmt: skip

    @classmethod
    def at(cls, folder: Path) -> Listed:
        """Read a run folder; never raises an error for a damaged run, since it must not hide the others."""
        sizes, written = _files(folder)
        ended = RESULT in sizes
        found: dict[str, Any] = {"folder": folder, "size": sum(sizes.values()), "started": "" if ended else written}
        found["comparison"] = above(folder)
        try:
            settings = _read(folder / SETTINGS)
            found |= _from_settings(settings)
            settings = found["settings"] = renewed(settings)
        except (ValueError, KeyError) as error:
            wrong = f"cannot be read ({error})" if SETTINGS in sizes else "is missing"
            why = f"{SETTINGS} {wrong}; bring it back, or remove the folder and do the run again"
            return cls(**found, state="damaged", why=why)
        try:
            found |= _from_result(folder / RESULT) if ended else _from_tasks(folder / TASKS)
        except ValueError as error:
            return cls(**found, state="damaged", why=f"{RESULT} cannot be read ({error}); remove it and resume the run")
        if unknown := unknown_settings(settings):
            ours = f"of a version of moca whose {', '.join(unknown)} moca {__version__} does not know"
            why = f"{ours}; remove the folder and do the run again"
            return cls(**found | {"state": "older", "why": why})
        if not ended:
            state = "running" if is_held(folder / LOCK) else "failed" if TRACEBACK in sizes else "stopped"
            found |= {"state": state, "from_the_beginning": bool(found.get("learned")) and CHECKPOINT not in sizes}
        return cls(**found)


def listed(*places: Path) -> Iterator[Listed]:
    """All runs at or below the given places."""
    return (Listed.at(folder) for folder in run_folders(*places))


def not_begun(comparison: Path) -> list[Path]:
    """The runs of a comparison that have no folder yet; none if the best are still to be chosen."""
    _, runs = kept(comparison)
    folders = [comparison / name for name in runs or ()]
    return [folder for folder in folders if not any((folder / name).is_file() for name in MARKS)]


def _files(folder: Path) -> tuple[dict[str, int], str]:
    """The size of each file, and when the settings were written."""
    sizes, written = {}, ""
    with os.scandir(folder) as entries:
        for entry in (one for one in entries if one.is_file()):
            with suppress(FileNotFoundError):  # a temporary file that an active run has just renamed
                about = entry.stat()
                sizes[entry.name] = about.st_size
                if entry.name == SETTINGS:
                    written = datetime.fromtimestamp(about.st_mtime, UTC).isoformat(timespec="seconds")
    return sizes, written


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises a ValueError with a short message otherwise."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(error.strerror) from None
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(content, dict):
        raise ValueError("it holds something else")
    return content


def _from_tasks(path: Path) -> dict[str, Any]:
    """Progress of a run that has not ended, from the last complete line of tasks.jsonl."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            record = json.loads(line)
            learned, seconds = int(record["learned"]), float(record["seconds"])
            return {"learned": learned} | ({"seconds": seconds} if learned else {})
        except (ValueError, KeyError, TypeError):
            continue  # an incomplete line
    return {}


def _from_result(path: Path) -> dict[str, Any]:
    """The outcome of a run that has ended, from result.json."""
    result = _read(path)
    if not intact(result):
        raise ValueError("its numbers do not belong together")
    environment = result.get("environment")
    try:
        accuracy = result["final_accuracy"]
        return {
            "state": result["status"],
            "why": str(result.get("message") or ""),
            "learned": max(0, len(result["accuracy_matrix"]) - 1),
            "accuracy": math.nan if accuracy is None else float(accuracy),
            "numbers": {name: result.get(name) for name in _NUMBERS},
            "version": str(environment.get("moca", "")) if isinstance(environment, dict) else "",
            "seconds": float(result["seconds"]),
        } | ({"started": str(result["started"])} if result.get("started") else {})
    except (KeyError, TypeError):
        raise ValueError("something is missing") from None


def _from_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Method, data and seed of a run, from settings.json."""

    def called(value: Any) -> str:
        if not isinstance(value, dict):
            return str(value)
        variant = ",".join(f"{name}={value[name]}" for name in VARIANTS if value.get(name))
        return str(value.get("name", "?")) + f":{variant}" * bool(variant)

    def own(value: Any) -> bool:
        return isinstance(value, dict) and value.get("own") is True

    try:
        seed = settings["seed"]
        return {
            "data": Path(called(settings["data"])).name,
            "learner": called(settings["learner"]),
            "perturb": called(settings["perturb"]),
            "seed": int(seed["seed"] if isinstance(seed, dict) else seed),
            "held_out": bool(settings.get("validation")),
            "in_python_only": any(own(value) for value in settings.values()),
        }
    except (KeyError, TypeError):
        raise ValueError("a setting is missing") from None


SORTS: dict[str, Callable[[Listed], Any]] = {
    "name": lambda run: str(run.folder),
    "method": lambda run: (run.method, run.data, run.seed or 0),
    "data": lambda run: (run.data, run.method, run.seed or 0),
    "seed": lambda run: (run.seed or 0, run.method),
    "state": lambda run: STATES.index(run.state),
    "accuracy": lambda run: -run.accuracy if run.accuracy == run.accuracy else math.inf,
    "when": lambda run: run.started,
    "long": lambda run: -run.seconds if run.seconds == run.seconds else math.inf,
    "size": lambda run: -run.size,
}
"""Sort keys for runs: names ascending, the latest last, the largest numbers first."""


def names_of(value: str) -> set[str]:
    """The names that match a learner or perturbation: er:adjust=1.0 is also matched by er:adjust=1, and by er."""
    return {value, re.sub(r"\.0\b", "", value), value.partition(":")[0]}


def chosen(
    runs: Iterable[Listed],
    learner: Sequence[str] = (),
    perturb: Sequence[str] = (),
    data: Sequence[str] = (),
    state: Sequence[str] = (),
    sort: str = "name",
) -> list[Listed]:
    """Filter and sort runs: each non-empty filter must match one of its values; er also matches er:adjust=auto."""
    wanted = {"learner": learner, "perturb": perturb, "data": data, "state": state}
    matching = [
        run
        for run in runs
        if all(not values or names_of(getattr(run, name)) & set(values) for name, values in wanted.items())
    ]
    return sorted(matching, key=SORTS[sort])
