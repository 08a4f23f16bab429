"""The trackers of a run, and its id in each of them: tracking.json in its folder."""

from __future__ import annotations

from typing import Any

from moca.engine.folder import RunFolder
from moca.errors import MocaError
from moca.parts import TRACKERS
from moca.settings import Choice
from moca.settings.choice import choice_of
from moca.trackers.base import Tracker

TRACKING = "tracking.json"


def chosen(track: Any) -> list[Choice]:
    """Parse trackers in any of the accepted forms, one or several, and check that each can be reached."""
    choices = asked(track)
    for choice in choices:
        tracker = choice.make()
        for name in ("open", "log", "close"):
            if getattr(type(tracker), name) is getattr(Tracker, name):
                raise MocaError(f"'{choice.name}' has no method {name}, which a tracker needs")
        tracker.reach()
    return choices


def asked(track: Any) -> list[Choice]:
    """Parse trackers in any of the accepted forms, one or several."""
    given = list(track) if isinstance(track, list | tuple) else [track]
    choices = [as_choice(one) for one in given if one is not None]
    for number, choice in enumerate(choices):
        if choice.name in [other.name for other in choices[:number]]:
            raise MocaError(f"a run has one tracker '{choice.name}'; give it once")
    return choices


def kept(folder: RunFolder) -> list[Choice]:
    """The trackers that the run had before, except Python objects, which must be passed again."""
    try:
        return [as_choice(entry["tracker"]) for entry in _read(folder).values() if not entry["tracker"].get("own")]
    except (MocaError, KeyError, TypeError, AttributeError) as error:
        raise MocaError(f"{folder.path / TRACKING}: {error}; remove it to resume without trackers") from None


def known_by(folder: RunFolder, tracker: Choice) -> str | None:
    """The id of the run in a tracker, if it was tracked there before."""
    run: str | None = _read(folder).get(tracker.name, {}).get("run")
    return run


def keep(folder: RunFolder, tracker: Choice, run: str | None = None) -> None:
    """Write down that the run has this tracker, with its id `run` there."""
    entry = {"tracker": tracker.model_dump(mode="json", by_alias=True), "run": run}
    folder.write_json(TRACKING, _read(folder) | {tracker.name: entry})


def as_choice(tracker: Any) -> Choice:
    """Parse a tracker in any of the accepted forms."""
    return choice_of(TRACKERS, tracker)


def _read(folder: RunFolder) -> dict[str, Any]:
    return folder.read_json(TRACKING) if (folder.path / TRACKING).is_file() else {}
