"""What a comparison is to do, before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moca.data.progress import Watch
from moca.defaults import choices_in_words, unused_in_words
from moca.engine import choose
from moca.engine.material import Material
from moca.engine.plan import Plan, plan
from moca.engine.request import CHOOSING
from moca.engine.selection import refuse_mixing
from moca.settings.choosing import Choosing


@dataclass(frozen=True)
class Intent:
    """The runs of a comparison."""

    plans: list[Plan]
    """All combinations on the test images; if the best are chosen first, only these are carried out."""
    how: Choosing | None
    """How the best combinations are chosen, if they are."""
    held_out: list[Plan]
    """The runs on held-out images that they are chosen by."""
    lines: list[str]
    """What is said of the settings: those that were chosen automatically, and those without effect."""

    @classmethod
    def of(cls, settings: dict[str, Any], seeds: Sequence[int], choosing: Any, out: Path, watch: Watch) -> Intent:
        """The intent of a comparison in the folder `out`; `watch` is called as by `Material`."""
        how = None if choosing is None else choose.asked(choosing)
        refuse_mixing(out, how)
        material = Material(watch)
        plans = plan(settings, seeds, out, material)
        chosen = choices_in_words((p.given, p.settings, p.stream.dataset) for p in plans if p.given)
        unused = unused_in_words(settings, [p.settings for p in plans])
        held_out = [] if how is None else choose.plan(settings, how, seeds, out / CHOOSING, material)
        return cls(plans, how, held_out, [*chosen, *filter(None, [unused])])

    @property
    def first(self) -> list[Plan]:
        """The runs that are carried out before any choice."""
        return self.held_out or self.plans

    @property
    def after_choice(self) -> int:
        """How many runs are carried out once the best combinations are chosen."""
        one_of_each = {labels[0] for labels in choose.methods(self.plans)}
        return sum(p.label in one_of_each for p in self.plans) if self.how else 0
