"""Matplotlib figures as small SVG text that can stand inside a page."""

import io
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from matplotlib import rc_context
from matplotlib.figure import Figure

INK, FAINT, RULE = "#24292f", "#6e7781", "#d9dde1"

_MEASURED_WITH = "DejaVu Sans"
"""Comes with matplotlib and is wide, so that what fits in it fits in the reader's font."""
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "moca",
    "text.parse_math": False,
    "font.family": _MEASURED_WITH,
    "font.size": 9,
    "text.color": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures. Labels are plain text; a browser has the glyphs that matplotlib's font lacks."""
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def plain(label: str, length: int = 60) -> str:
    """A label as a figure can show it: printable, of bearable length, and not hidden from the legend."""
    shown = "".join(c if c.isprintable() else " " for c in label)
    shown = shown if len(shown) <= length else shown[: length - 1] + "…"
    return "\u200b" + shown if shown.startswith("_") else shown


def folded(label: str, width: int) -> list[str]:
    """The label in lines of about `width` characters, broken where one option ends and the next begins."""
    lines = [""]
    for part in re.findall(rf"[^+,: ]{{1,{width - 1}}}[+,: ]?|[+,: ]", label):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def to_svg(figure: Figure, alt: str) -> str:
    """The figure as an <svg> element that shares no id with another figure of the page; `alt` says it in words."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    name = f"f{zlib.crc32(buffer.getvalue().encode()):08x}"
    _drop(root, {"metadata", "style"})
    used = set(re.findall(r"#(\w+)", " ".join(v for e in root.iter() for v in e.attrib.values() if "#" in v)))
    for element in root.iter():
        _slim(element, name, used)
    root.attrib.update(
        {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": plain(alt, 300)}
        | {"font-family": _FONTS, "stroke-linejoin": "round"}
    )
    return ElementTree.tostring(root, encoding="unicode")


def _drop(root: ElementTree.Element, tags: set[str]) -> None:
    """Take elements out: matplotlib's style sheet would reach the whole page, its metadata says nothing."""
    for parent in root.iter():
        for child in list(parent):
            if _local(child.tag) in tags:
                parent.remove(child)


def _slim(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Shorten numbers, leave the fonts to the page, and keep only ids that something refers to."""
    element.tag = _local(element.tag)
    kept = {}
    for key, value in element.attrib.items():
        key = _local(key)
        if key == "id":
            if value in used:
                kept[key] = f"{name}-{value}"
        elif key in ("href", "clip-path"):
            kept[key] = value.replace("#", f"#{name}-")
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        elif key in ("d", "x", "y", "transform", "width", "height"):
            kept[key] = re.sub(r"-?\d+\.\d+", _two_decimals, " ".join(value.split()))
        elif key == "style":
            kept[key] = value.replace(f"font-family: '{_MEASURED_WITH}'; ", "").replace(f"'{_MEASURED_WITH}'", _FONTS)
        elif key != "version":
            kept[key] = value
    element.attrib.clear()
    element.attrib.update(kept)
    if element.tag not in ("text", "tspan") and not (element.text or "").strip():
        element.text = None
    element.tail = None


def _two_decimals(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def _local(name: str) -> str:
    return name.rpartition("}")[2]
