"""Which trackers a run has, and what it is known by over there: tracking.json of its folder."""

from __future__ import annotations

from typing import Any

from moca.engine.folder import RunFolder
from moca.errors import MocaError
from moca.parts import TRACKERS
from moca.settings import Choice
from moca.settings.choice import choice_of

TRACKING = "tracking.json"


def chosen(track: Any) -> list[Choice]:
    """Trackers in any of the accepted forms, one or several; each must be there and can be reached."""
    given = list(track) if isinstance(track, list | tuple) else [track]
    choices = [as_choice(one) for one in given if one is not None]
    for number, choice in enumerate(choices):
        if choice.name in [other.name for other in choices[:number]]:
            raise MocaError(f"a run has one tracker '{choice.name}'; give it once")
        choice.make().reach()
    return choices


def kept(folder: RunFolder) -> list[Choice]:
    """Those that the run had before, but for objects of Python, which must be handed in again."""
    try:
        return [as_choice(told["tracker"]) for told in _read(folder).values() if not told["tracker"].get("own")]
    except (MocaError, KeyError, TypeError, AttributeError) as error:
        raise MocaError(f"{folder.path / TRACKING}: {error}; remove it to go on without trackers") from None


def known_by(folder: RunFolder, tracker: Choice) -> str | None:
    """What the run is known by in a tracker, if it was there before."""
    run: str | None = _read(folder).get(tracker.name, {}).get("run")
    return run


def keep(folder: RunFolder, tracker: Choice, run: str | None = None) -> None:
    """The run has this tracker, and is known by that over there."""
    entry = {"tracker": tracker.model_dump(mode="json", by_alias=True), "run": run}
    folder.write_json(TRACKING, _read(folder) | {tracker.name: entry})


def as_choice(tracker: Any) -> Choice:
    """A tracker, in any of the accepted forms, as it is written down."""
    return choice_of(TRACKERS, tracker)


def _read(folder: RunFolder) -> dict[str, Any]:
    return folder.read_json(TRACKING) if (folder.path / TRACKING).is_file() else {}
