"""A table that can be shown on a page and copied as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

UNKNOWN = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"
_ESCAPED = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    _MINUS: "$-$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    UNKNOWN: "--",
    "\N{GREEK SMALL LETTER LAMDA}": r"$\lambda$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\N{NO-BREAK SPACE}": "~",
}
"""Characters that LaTeX would misinterpret, and their replacements."""
_PAGE, _GAP = 100, 2
"""Small characters that fit the width of a page in LaTeX, and those between two columns."""


@dataclass(frozen=True)
class Cell:
    """A table cell."""

    text: str = UNKNOWN
    aside: str = ""
    """Shown in small print after the text, such as the standard deviation."""
    mark: bool = False
    """Whether it is highlighted: a difference that is more than chance, or a setting unlike most others."""
    copied: str = ""
    """If not empty, the cell is a button that copies this."""
    colour: int | None = None
    """Colour index of the line that belongs to the row."""
    bare: str = ""
    """The number for programs to read, if the text is formatted for people."""
    best: bool = False
    """Whether it is the best number of its column; bold in LaTeX."""

    @property
    def whole(self) -> str:
        """Text, aside and mark as one string."""
        return " ".join(filter(None, (self.text, self.aside))) + "*" * self.mark


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head; the first column names the row."""

    name: str
    """One or two words, for labels and file names."""
    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    caption: str = ""
    about: str = ""
    """Distinguishes it from other tables of the same name, for labels."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """How methods are called in LaTeX, by the text of their cells and heads."""
    bold: str = ""
    """What is bold in LaTeX, for the caption there."""

    def csv(self) -> str:
        """The table as CSV for programs: plain numbers, with standard deviations in separate columns."""
        has_aside = [any(row[place].aside for row in self.rows) for place in range(len(self.head))]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        pairs = zip(self.head, has_aside, strict=True)
        heads = [[_plain(title)] + [f"{_plain(title)} ±"] * more for title, more in pairs]
        writer.writerow([title for some in heads for title in some])
        for row in self.rows:
            cells = [[_value(c)] + [c.aside.removeprefix("± ")] * more for c, more in zip(row, has_aside, strict=True)]
            writer.writerow([text for some in cells for text in some])
        return file.getvalue()

    def markdown(self) -> str:
        """The table as GitHub Markdown, with numbers right-aligned."""
        lines = [[_pipe(title) for title in self.head], ["---", *["---:"] * (len(self.head) - 1)]]
        lines += [[_pipe(cell.copied or cell.whole) for cell in row] for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def latex(self) -> str:
        """The table as LaTeX, with booktabs; columns that do not fit a page continue below."""
        label = re.sub(r"[^a-z0-9]+", "-", f"{self.name} {self.about}".lower()).strip("-")
        cells = [tuple(map(Cell, self.head)), *self.rows]
        named = [[replace(cell, text=self.printed.get(cell.text, cell.text)) for cell in row] for row in cells]
        columns = [list(column) for column in zip(*named, strict=True)]
        return "\n".join([
            r"\begin{table}", r"\centering", r"\small", "\n\\par\\medskip\n".join(map(_tabular, _on_pages(columns))),
            rf"\caption{{{_tex(f'{self.caption} {self.bold}'.strip())}}}", rf"\label{{tab:{label}}}",
            r"\end{table}", "",
        ])  # fmt: skip


def _on_pages(columns: list[list[Cell]]) -> list[list[list[Cell]]]:
    """The columns in groups that each fit the width of a page; each group begins with the first column."""
    first, *others = columns
    needed = [max(len(cell.copied or cell.whole) for cell in column) + _GAP for column in columns]
    groups, room = [[first]], _PAGE - needed[0]
    for column, width in zip(others, needed[1:], strict=True):
        if width > room and len(groups[-1]) > 1:
            groups.append([first])
            room = _PAGE - needed[0]
        groups[-1].append(column)
        room -= width
    return groups


def _tabular(columns: list[list[Cell]]) -> str:
    head, *body = (" & ".join(map(_in_tex, line)) + r" \\" for line in zip(*columns, strict=True))
    form = "l" + "r" * (len(columns) - 1)
    return "\n".join([rf"\begin{{tabular}}{{{form}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule",
                      r"\end{tabular}"])  # fmt: skip


def _in_tex(cell: Cell) -> str:
    text = _tex(cell.copied or cell.text)
    aside = _tex(f" {cell.aside}" * bool(cell.aside) + "*" * cell.mark)
    return rf"\textbf{{{text}}}{aside}" if cell.best else text + aside


def _value(cell: Cell) -> str:
    return cell.copied or cell.bare or ("" if cell.text == UNKNOWN else cell.text.replace(_MINUS, "-"))


def _plain(title: str) -> str:
    return title.replace("\N{NO-BREAK SPACE}", " ").rstrip(" ↑↓")


def _pipe(text: str) -> str:
    """Escape text so that it neither ends a Markdown cell nor is read as HTML."""
    return " ".join(re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text).split())


def _tex(text: str) -> str:
    return "".join(_ESCAPED.get(c, c if c.isprintable() else " ") for c in text)
