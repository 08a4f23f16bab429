"""Mistakes that a user can mend: each is one line that says what was wrong and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class MocaError(Exception):
    """Something the user asked for cannot be done; the message says why and what to do instead."""


class Diverged(MocaError):
    """The loss of a run is no longer a finite number."""


class Interrupted(MocaError):
    """Ctrl-C or SIGTERM, after everything was kept; the message says how to go on."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known name, or all of them when none is near."""
    known = sorted(known)
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(known)
