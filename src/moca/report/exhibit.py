"""What a page shows beside accuracies: figures and tables under a title."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moca.report.plots import Plot, plane
from moca.report.table import Table

if TYPE_CHECKING:
    from moca.report.comparison import Comparison
    from moca.report.features import Panel


@dataclass(frozen=True)
class Exhibit:
    """A section of the page."""

    title: str
    caption: str = ""
    """What is to be seen, and on which images."""
    plots: list[tuple[str, Plot]] = field(default_factory=list)
    """Each with its title."""
    tables: list[Table] = field(default_factory=list)


def analyses(comparison: Comparison) -> list[Exhibit]:
    """What was recorded beside accuracies in the folders of the runs; nothing yet."""
    return []


def planes(panels: Sequence[Panel]) -> Exhibit:
    """Two-dimensional features, a figure a model."""
    return Exhibit(
        "Features",
        "Features of the test images from an encoder with two outputs, after the last task. Old classes are filled "
        "circles in cool colours, classes of the last task open triangles in warm ones; a line from the origin is the "
        "direction of a class vector, with the name of its class. Each panel has its own scale: only angles compare.",
        [(panel.title, plane(panel)) for panel in panels],
    )
