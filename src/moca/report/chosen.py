"""Tuned methods: each with the combination of settings that did best on held-out training images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from moca.engine.choose import Pick
from moca.engine.cost import Cost
from moca.engine.result import Result
from moca.engine.selection import Selection
from moca.report.comparison import Comparison
from moca.settings import Label
from moca.wording import counted


class Chosen(Comparison):
    """The chosen methods, compared on the test images; `choosing` has the runs that they were chosen by."""

    def __init__(
        self,
        results: Sequence[tuple[Label, Result]],
        folder: Path,
        cost: Cost | None,
        choosing: Comparison,
        picks: Sequence[Pick],
        share: float,
    ) -> None:
        super().__init__(results, folder, cost, chosen=True)
        self.choosing = choosing
        """The runs on held-out images."""
        self.picks = list(picks)
        """The combination chosen for each learner with each perturbation, and those it was chosen from."""
        self.share = share
        """The share of the training images that was held out."""

    @property
    def told(self) -> str:
        """A paragraph that says what was chosen, on which images and seeds, and from how many combinations."""
        named = {label for pick in self.picks for label in pick.among}
        lost = [row.label for row in self.choosing.rows if row.label not in named]
        nothing = f" Nothing was chosen among {', '.join(lost)}: none finished with every seed." if lost else ""
        return _paragraph(self._selection, nothing)

    @property
    def _selection(self) -> Selection:
        return Selection(self.picks, self.share, _seeds(self.choosing.results), _seeds(self.results))

    def _write(self, folder: Path) -> None:
        """Also write chosen.json."""
        super()._write(folder)
        self._selection.save(folder)

    def write_report(self) -> Path:
        """Write one page: first the results on the test images, then the runs that settings were chosen by."""
        from moca.report.page import write_report  # here, since a single run needs no page

        runs = [(row.name, r) for one in (self, self.choosing) for row in one.rows for r in row.results]
        return write_report(Comparison(runs, self.folder, self.cost, chosen=True), about=self.told)


def told_in(folder: Path) -> str:
    """The paragraph about the choice of the comparison in a folder; empty if there was none or it is unreadable."""
    selection = Selection.of(folder)
    return _paragraph(selection) if selection else ""


def changes_in(folder: Path) -> str:
    """What was chosen only after something else had been tested, by the comparison in a folder; empty if nothing."""
    selection = Selection.of(folder)
    return _changes(selection.picks) if selection else ""


def _paragraph(selection: Selection, nothing: str = "") -> str:
    changes = _changes(selection.picks)
    before = f"Not all was chosen before testing: {changes}." if changes else "Chosen before testing."
    unseen = "" if changes else "; the test images played no part"
    return (
        f"{before} For each learner with each perturbation, the settings with the best mean final accuracy on "
        f"{100 * selection.share:g} % of the training images, held out, with {_in_words(selection.seeds)}, were taken"
        f"{unseen}. {' '.join(map(_picked, selection.picks))}{nothing} The chosen methods were then trained on all "
        f"training images with {_in_words(selection.tested)}, which did not take part in the choice, and evaluated on "
        "the test images. Accuracies on held-out images are those of the best of several, and so a little too good."
    )


def _changes(picks: Sequence[Pick]) -> str:
    """The choices that changed once test accuracies could be seen, in words."""
    return "; ".join(
        f"the choice changed from {' and '.join(_tested(*one) for one in pick.tested_before.items())} to {pick.label}"
        for pick in picks
        if pick.tested_before
    )


def _tested(label: str, seeds: Sequence[int]) -> str:
    return f"{label}, tested with {counted(len(seeds), 'seed')},"


def _picked(pick: Pick) -> str:
    if not pick.among:
        return f"{pick.label} had one combination, so nothing was chosen."
    others = sorted((a for label, a in pick.among.items() if label != pick.label and not math.isnan(a)), reverse=True)
    unfinished = sum(math.isnan(accuracy) for accuracy in pick.among.values())
    lost = f", {unfinished} of which did not finish" if unfinished else ""
    next_best = f", the next one {100 * others[0]:.2f} %" if others else ""
    return f"{pick.label} is the best of {len(pick.among)}{lost}: {100 * pick.among[pick.label]:.2f} %{next_best}."


def _seeds(results: Sequence[Result]) -> list[int]:
    return sorted({r.settings.seed.seed for r in results})


def _in_words(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"seed {numbers[0]}"
    in_a_row = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
    several = f"{numbers[0]} to {numbers[-1]}" if in_a_row else " and ".join(map(str, numbers))
    return f"seeds {several}"
