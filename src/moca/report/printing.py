"""The style of printed figures, and saving them."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from moca.atomic import whole, writing
from moca.report.labels import plain, wrapped

INK, FAINT, RULE = "#24292f", "#6e7781", "#d9dde1"
COLUMN, PAGE = 3.25, 6.75
"""Width in inches of a column, and of a page, of most papers."""
DOTS = 300
"""Resolution of a PNG, in dots per inch."""
_MARGIN = 0.04
"""Inches above and below what is drawn."""
DASHES = {"solid": "-", "dash": "--"}
_STYLE: dict[Any, Any] = {
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.size": 8.5,
    "text.color": INK,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.title_fontsize": 7,
}


@contextmanager
def style() -> Iterator[None]:
    """A context manager (or decorator) that applies the style of all printed figures."""
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@style()
def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Save a figure as PDF and PNG, as wide as it is but no higher than what is drawn; return both paths."""
    paths = {kind: folder / f"{name}.{kind}" for kind in ("pdf", "png")}
    with writing(f"folder '{folder}'", "choose another"):
        folder.mkdir(parents=True, exist_ok=True)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # both files reuse the layout just computed
        used = figure.get_tightbbox()
        shown = Bbox.from_extents(0, used.y0 - _MARGIN, figure.get_figwidth(), used.y1 + _MARGIN)
        for kind, path in paths.items():
            with whole(path) as part:
                metadata = {"CreationDate": None} if kind == "pdf" else {}
                figure.savefig(part, format=kind, dpi=DOTS, metadata=metadata, bbox_inches=shown)
    return [*paths.values()]


def legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], note: str) -> None:
    """Add a note and a legend below the figure, with as many columns as fit; the figure grows by their height."""
    handle, letter = 0.5, 0.07  # inches: of a handle with its spacing, and of a letter
    names = [wrapped(label, int((figure.get_figwidth() - handle) / letter)) for label in labels]
    inches = handle + letter * max((len(line) for lines in names for line in lines), default=0)
    across = max(1, min(len(names), int(figure.get_figwidth() / inches)))
    across = -(-len(names) // -(-len(names) // across)) if names else 1  # columns of nearly equal length
    columns = np.array_split([len(lines) for lines in names], across)
    lines = 1 + max(int(column.sum()) for column in columns)
    figure.set_figheight(figure.get_figheight() + 0.17 * lines + 0.1)
    texts = [_visible("\n".join(lines)) for lines in names]
    made = figure.legend(handles, texts, title=note, loc="outside lower center", ncols=across, columnspacing=1.4,
                         borderpad=0.1)  # fmt: skip
    made.get_title().set_color(FAINT)


def over_seeds(counts: Iterable[int], spread: bool = True) -> str:
    """What a line or bar and its spread are, or a number without one, given the number of seeds of each."""
    fewest, most = min(every := list(counts)), max(every)
    if most == 1:
        return "one seed"
    return f"mean{' and standard deviation' * spread} of {most if fewest == most else f'{fewest} to {most}'} seeds"


def y_label(text: str) -> str:
    """The name of a y-axis, wrapped to the height of a small figure, with its unit beside the last word."""
    return textwrap.fill(text.replace(" (", "\N{NO-BREAK SPACE}("), 26)


def shown(label: str, length: int = 60) -> str:
    """A label as matplotlib can show it."""
    return _visible(plain(label, length))


def _visible(text: str) -> str:
    """The text, which legends would hide if it began with an underscore."""
    return "\u200b" + text if text.startswith("_") else text
