"""Numbers and lists as part of a sentence."""

from collections.abc import Sequence


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: "1 image", "2 images"."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def some(things: Sequence[object], most: int) -> str:
    """The first things, and how many more there are: "ring, square and 3 more"."""
    shown = ", ".join(map(str, things[:most]))
    return f"{shown} and {len(things) - most} more" if len(things) > most else shown
