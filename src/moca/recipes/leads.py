"""What is left to be gained where the lead of new classes is taken back, of runs that recorded it."""

from __future__ import annotations

from collections.abc import Sequence

from moca.measures.analysis import analyses_of
from moca.measures.record.lead import at_the_end
from moca.recipes.equal_footing import RULE
from moca.recipes.matching import Entry
from moca.report.spread import Spread

_HEAD = ["where", "method", "n", "as trained", "adjust=1", "at best", "best adjust"]


def rows(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """As a table: the same weights, tested with the statistics of replayed batches alone, while more and more is taken
    from the classes of the last task. Each method once in a place."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        tested = [numbers for one in entry.results if one.finished and (numbers := at_the_end(analyses_of(one), RULE))]
        if tested and entry.cell.counts:
            columns = (Spread.of(list(values)).points() for values in zip(*tested, strict=True))
            found.setdefault((entry.cell.where, entry.cell.method), [str(len(tested)), *columns])
    return _HEAD, [[*key, *row] for key, row in found.items()]
