"""What a comparison was asked for, kept in its folder, so that it can be gone on with as a whole. No torch is needed.

compare.json: {"options": those of `moca compare` by name, as one would give them;
               "runs": the names of their folders, or null where the best are to be chosen first}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moca.atomic import whole
from moca.errors import MocaError
from moca.parts import TRACKERS
from moca.settings import Choice, spelt

if TYPE_CHECKING:
    from moca.engine.plan import Plan

ASKED = "compare.json"
CHOOSING = "choosing"
"""The folder, within that of a comparison, of runs to choose by."""


def options(
    settings: Mapping[str, Any],
    plans: Sequence[Plan],
    trackers: Sequence[Choice],
    **others: Any,
) -> dict[str, Any] | None:
    """What was asked for in words: settings with several values as lists, all others as one. None where something of
    it is known to this process only."""
    if here_only(plans, trackers):
        return None
    given = [p.given for p in plans if p.given]
    told: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
    if trackers:
        told["track"] = [tracker.as_given() for tracker in trackers]
    for name, value in settings.items():
        if value is not None:
            words = list(dict.fromkeys(_in_words(getattr(run, name)) for run in given))
            told[name] = words if isinstance(value, list) else words[0]
    return told


def here_only(plans: Sequence[Plan], trackers: Sequence[Choice]) -> bool:
    """Whether another process would not know something of these runs, or of who keeps them."""
    known_here = any(tracker.own or tracker.name in TRACKERS.registered for tracker in trackers)
    return known_here or any(p.settings.in_this_process_only for p in plans)


def _in_words(value: Any) -> str | None:
    return None if value is None else spelt(value)


def keep(folder: Path, asked: Mapping[str, Any] | None, runs: Sequence[str] | None) -> None:
    """Write it down; the latest that was asked for counts, and has all runs that were begun before. Of one without
    words nothing is kept, nor what was before it, which had fewer runs."""
    if asked is None:
        return forget(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole(folder / ASKED) as path:
            path.write_text(json.dumps({"options": asked, "runs": runs}, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise MocaError(f"folder '{folder}' cannot be written: {error.strerror}; choose another with out=") from None


def forget(folder: Path) -> None:
    """There is nothing that could be gone on with by these words."""
    (folder / ASKED).unlink(missing_ok=True)


def kept(folder: Path) -> tuple[dict[str, Any], list[str] | None]:
    """The options, and the names of the runs that there are to be."""
    try:
        content = json.loads((folder / ASKED).read_bytes())
        return dict(content["options"]), None if content["runs"] is None else list(content["runs"])
    except (OSError, ValueError, KeyError, TypeError):
        raise MocaError(
            f"{folder / ASKED} is damaged; give the comparison again, with out={folder}, and it goes on"
        ) from None


def above(run: Path) -> Path | None:
    """The folder of the comparison that a run belongs to, where it can be gone on with as a whole."""
    folder = run.parent
    if folder.name == CHOOSING and not (folder / ASKED).is_file():
        folder = folder.parent
    if not (folder / ASKED).is_file():
        return None
    try:
        _, runs = kept(folder)
    except MocaError:
        return None
    return folder if runs is None or run.name in runs else None
