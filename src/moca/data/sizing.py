"""Choose a size for the images of a folder, by the first image in it."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

from PIL import Image

from moca.data.readers import scalable

_LARGE, HANDY, _LOOKED_AT = 48, 32, 200
"""Images whose shorter side is above `_LARGE` are resized to `HANDY`, from which small encoders learn in a minute; at
most `_LOOKED_AT` files are tried to find an image."""


def handy_size(path: Path) -> int | None:
    """The side in pixels to which the images of a folder should be resized on a CPU; None if they are small enough, or
    cannot be resized."""
    if not scalable(path):
        return None
    files = (file for file in path.rglob("*") if file.is_file())
    for file in islice(files, _LOOKED_AT):
        with suppress(Exception), Image.open(file) as image:  # not an image
            return handy_side(*image.size)
    return None


def handy_side(*sides: int) -> int | None:
    """`handy_size` for an image with these sides."""
    return HANDY if min(sides) > _LARGE else None
