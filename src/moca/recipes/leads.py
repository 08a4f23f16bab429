"""How much logit adjustment would gain, from runs that recorded the lead of new classes."""

from __future__ import annotations

from collections.abc import Sequence

from moca.measures.analysis import analyses_of
from moca.measures.record.lead import at_the_end
from moca.recipes.equal_footing import RULE
from moca.recipes.matching import Entry
from moca.report.spread import Spread

_HEAD = ["where", "method", "n", "as trained", "adjust=1", "at best", "best adjust"]


def rows(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """A table of the same weights, tested with the BatchNorm statistics of replayed batches only, with increasing logit
    adjustment of the last task's classes. Each method appears once per setting, data set and memory."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        tested = [numbers for one in entry.results if one.finished and (numbers := at_the_end(analyses_of(one), RULE))]
        if tested and entry.cell.counts:
            columns = (Spread.of(list(values)).points() for values in zip(*tested, strict=True))
            found.setdefault((entry.cell.where, entry.cell.method), [str(len(tested)), *columns])
    return _HEAD, [[*key, *row] for key, row in found.items()]
