"""How large the images of a folder are, seen at the first of them, and how large they had better be."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

from PIL import Image

from moca.data.readers import scalable

_LARGE, HANDY, _LOOKED_AT = 48, 32, 200
"""A side above which images are brought to another; the side that small encoders learn from in a minute; and how many
files are looked at to find an image."""


def handy_size(path: Path) -> int | None:
    """The side to bring the images of a folder to on a CPU: none where they are small enough as they
    are, or cannot be."""
    looked_at = path.is_dir() and scalable(path)
    files = (file for file in path.rglob("*") if file.is_file()) if looked_at else iter(())
    for file in islice(files, _LOOKED_AT):
        with suppress(Exception), Image.open(file) as image:  # whatever is no image
            return handy_side(*image.size)
    return None


def handy_side(*sides: int) -> int | None:
    """The same for an image with these sides."""
    return HANDY if min(sides) > _LARGE else None
