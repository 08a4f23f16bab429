"""Tuned methods: each with the combination of settings that did best on held-out training images."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from moca.atomic import whole
from moca.engine.choose import Pick
from moca.engine.cost import Cost
from moca.engine.result import Result, null_if_nan
from moca.report.comparison import CHOSEN, Comparison


class Chosen(Comparison):
    """The chosen methods, compared on the test images; `choosing` has the runs that they were chosen by."""

    def __init__(
        self,
        results: Sequence[tuple[str, Result]],
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
        return _paragraph(self.picks, self.share, _seeds(self.choosing.results), _seeds(self.results), nothing)

    def _write(self, folder: Path) -> None:
        """Also write chosen.json, with one entry per method."""
        super()._write(folder)
        entries = [
            {
                "chosen": pick.label,
                "among": {label: null_if_nan(accuracy) for label, accuracy in pick.among.items()},
                "held_out": self.share,
                "seeds": _seeds(self.choosing.results),
                "tested_with_seeds": _seeds(self.results),
            }
            for pick in self.picks
        ]
        with whole(folder / CHOSEN) as path:
            path.write_text(json.dumps(entries, indent=2) + "\n")

    def write_report(self) -> Path:
        """Write one page: first the results on the test images, then the runs that settings were chosen by."""
        from moca.report.page import write_report  # here, since a single run needs no page

        runs = [(row.label, r) for one in (self, self.choosing) for row in one.rows for r in row.results]
        return write_report(Comparison(runs, self.folder, self.cost, chosen=True), about=self.told)


def told_in(folder: Path) -> str:
    """The paragraph about the choice of the comparison in a folder; empty if there was none or it is unreadable."""
    try:
        entries = json.loads((folder / CHOSEN).read_text())
        picks = [
            Pick(one["chosen"], {name: math.nan if a is None else a for name, a in one["among"].items()})
            for one in entries
        ]
        return _paragraph(picks, entries[0]["held_out"], entries[0]["seeds"], entries[0]["tested_with_seeds"])
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return ""


def _paragraph(picks: Sequence[Pick], share: float, by: Sequence[int], tested: Sequence[int], nothing: str = "") -> str:
    return (
        f"Chosen before testing. For each learner with each perturbation, the settings with the best mean final "
        f"accuracy on {100 * share:g} % of the training images, held out, with {_in_words(by)}, were taken; the test "
        f"images played no part. {' '.join(map(_picked, picks))}{nothing} The chosen methods were then trained on all "
        f"training images with {_in_words(tested)}, which did not take part in the choice, and evaluated on the test "
        f"images. Accuracies on held-out images are those of the best of several, and so a little too good."
    )


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
