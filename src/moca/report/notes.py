"""Caveats about the numbers of methods: those of their runs, and means over runs that were made differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moca.engine.first_task import SHARED, SHARED_IN_SHORT
from moca.report.methods import Row

EDITED = "own code was edited after some of the runs; to do these again, remove their folders"


def notes(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Each note about runs of these methods, with the methods concerned.

    If a note does not hold for all seeds of a method, the method's name is followed by their number.
    """
    labels: dict[str, list[str]] = {}
    for row in rows:
        counts = Counter(
            SHARED_IN_SHORT if note.startswith(SHARED) else note for result in row.results for note in result.notes
        )
        for note, count in counts.items():
            some = f" ({count} of {len(row.results)} seeds)" if count < len(row.results) else ""
            labels.setdefault(note, []).append(row.label + some)
    return labels | mixed(rows)


def mixed(rows: Sequence[Row]) -> dict[str, list[str]]:
    """A note for each mixture of moca versions, of devices, or of states of the user's code, with the methods that are
    means over one."""
    labels: dict[str, list[str]] = {}
    for row in rows:
        for name, where in (("moca", "of moca"), ("device", "on")):
            known = sorted({str(r.environment[name]) for r in row.finished if r.environment.get(name)})
            if len(known) > 1:
                labels.setdefault(f"a mean over runs {where} {' and '.join(known)}", []).append(row.label)
        made = {str(r.environment["own"]) for r in row.finished if r.environment.get("own")}
        if made and len(made | {r.settings.own_code for r in row.finished} - {""}) > 1:
            labels.setdefault(EDITED, []).append(row.label)
    return labels
