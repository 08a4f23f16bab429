"""The options of a comparison, saved in its folder so that the whole comparison can be resumed. Works without torch.

compare.json: {"options": the options of `moca compare` by name, as a user would give them;
               "runs": the folder names of its runs, or null if the best are to be chosen first}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moca.atomic import write
from moca.errors import MocaError
from moca.parts import TRACKERS
from moca.settings import Choice, Run, spelt
from moca.settings.method import METHODS, method_of

if TYPE_CHECKING:
    from moca.engine.plan import Plan

ASKED = "compare.json"
CHOOSING = "choosing"
"""The subfolder of a comparison that holds the runs for `choose`."""


def options(
    settings: Mapping[str, Any], plans: Sequence[Plan], trackers: Sequence[Choice], **others: Any
) -> dict[str, Any] | None:
    """The options as text: settings with several values as lists, all others as one value. None if something exists
    only in this process."""
    if here_only(plans, trackers):
        return None
    given = [p.given for p in plans if p.given]
    texts: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
    if trackers:
        texts["track"] = [tracker.as_given() for tracker in trackers]
    for name, value in settings.items():
        if value is not None:
            having = [run for run in given if name == METHODS or name in run.model_fields_set]
            if words := list(dict.fromkeys(_in_words(name, run) for run in having)):
                texts[name] = words if isinstance(value, list) else words[0]
    return texts


def here_only(plans: Sequence[Plan], trackers: Sequence[Choice]) -> bool:
    """Whether these runs or trackers use Python objects or registered names that another process does not have."""
    known_here = any(tracker.own or tracker.name in TRACKERS.registered for tracker in trackers)
    return known_here or any(p.settings.in_this_process_only for p in plans)


def _in_words(name: str, run: Run) -> str | None:
    """The value that an option of the comparison has for one of its runs."""
    value = method_of(run) if name == METHODS else getattr(run, name)
    return None if value is None else spelt(value)


def keep(folder: Path, asked: Mapping[str, Any] | None, runs: Sequence[str] | None) -> None:
    """Save the options of a comparison, replacing earlier ones, whose runs it includes.

    If `asked` is None, the comparison cannot be saved as text; earlier options, which had fewer runs, are removed.
    """
    if asked is None:
        return forget(folder)
    text = json.dumps({"options": asked, "runs": runs}, indent=2) + "\n"
    remedy = "fix that and resume" if (folder / ASKED).is_file() else "choose another folder with out="
    return write(folder / ASKED, text, remedy)


def forget(folder: Path) -> None:
    """Remove the saved options."""
    (folder / ASKED).unlink(missing_ok=True)


def kept(folder: Path) -> tuple[dict[str, Any], list[str] | None]:
    """The saved options, and the folder names of the runs."""
    try:
        content = json.loads((folder / ASKED).read_bytes())
        return dict(content["options"]), None if content["runs"] is None else list(content["runs"])
    except (FileNotFoundError, NotADirectoryError):
        raise MocaError(
            f"'{folder}' cannot be resumed as a comparison: it has no {ASKED}; a run is resumed by moca.resume, a "
            "comparison of Python objects by repeating its call"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise MocaError(
            f"{folder / ASKED} is damaged; to resume, start the comparison again with out={folder}"
        ) from None


def above(run: Path) -> Path | None:
    """The folder of the comparison that a run belongs to, if that can be resumed as a whole."""
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
