"""What methods are called, as a figure has room for it."""

import re


def plain(label: str, length: int = 60) -> str:
    """A label as a figure can show it: printable and of bearable length."""
    shown = "".join(c if c.isprintable() else " " for c in label)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def folded(label: str, width: int) -> list[str]:
    """The label in lines of about `width` characters, broken where one option ends and the next begins."""
    lines = [""]
    for part in re.findall(rf"[^+,: ]{{1,{width - 1}}}[+,: ]?|[+,: ]", label):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]
