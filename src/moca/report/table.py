"""A table that can be shown on a page and copied as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

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
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\N{NO-BREAK SPACE}": "~",
}
"""What LaTeX would read as something else."""


@dataclass(frozen=True)
class Cell:
    """What stands in a table, and what stands small behind it."""

    text: str = UNKNOWN
    aside: str = ""
    mark: bool = False
    """To be looked at: a difference that is more than chance, or a setting unlike the others."""
    copied: str = ""
    """What a button in its place copies."""
    colour: int | None = None
    """Of the line that belongs to it."""
    bare: str = ""
    """A number as programs read it, where the text is for people."""

    @property
    def whole(self) -> str:
        """In one piece."""
        return " ".join(filter(None, (self.text, self.aside))) + "*" * self.mark


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head; the first column says what a row is about."""

    name: str
    """One word or two, for labels and file names."""
    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    caption: str = ""
    about: str = ""
    """What tells it from tables of the same name, for labels."""

    def csv(self) -> str:
        """With what stands behind a number in a column of its own, and nothing that a program would trip over."""
        apart = [any(row[place].aside for row in self.rows) for place in range(len(self.head))]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        heads = [[_plain(title)] + [f"{_plain(title)} ±"] * more for title, more in zip(self.head, apart, strict=True)]
        writer.writerow([title for some in heads for title in some])
        for row in self.rows:
            cells = [[_value(c)] + [c.aside.removeprefix("± ")] * more for c, more in zip(row, apart, strict=True)]
            writer.writerow([text for some in cells for text in some])
        return file.getvalue()

    def markdown(self) -> str:
        """As GitHub shows it; numbers to the right."""
        lines = [[_pipe(title) for title in self.head], ["---", *["---:"] * (len(self.head) - 1)]]
        lines += [[_pipe(cell.copied or cell.whole) for cell in row] for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def latex(self) -> str:
        """For a paper, with booktabs."""
        columns = "l" + "r" * (len(self.head) - 1)
        known = re.sub(r"[^a-z0-9]+", "-", f"{self.name} {self.about}".lower()).strip("-")
        body = [" & ".join(_tex(cell.copied or cell.whole) for cell in row) + r" \\" for row in self.rows]
        return "\n".join([
            r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule",
            " & ".join(map(_tex, self.head)) + r" \\", r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
            rf"\caption{{{_tex(self.caption)}}}", rf"\label{{tab:{known}}}",
            r"\end{table}", "",
        ])  # fmt: skip


def _value(cell: Cell) -> str:
    return cell.copied or cell.bare or ("" if cell.text == UNKNOWN else cell.text.replace(_MINUS, "-"))


def _plain(title: str) -> str:
    return title.replace("\N{NO-BREAK SPACE}", " ").rstrip(" ↑↓")


def _pipe(text: str) -> str:
    """Nothing of it ends a cell or is read as HTML."""
    return " ".join(re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text).split())


def _tex(text: str) -> str:
    return "".join(_ESCAPED.get(c, c if c.isprintable() else " ") for c in text)
