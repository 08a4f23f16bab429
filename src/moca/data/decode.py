"""Decode image files to pixels, with limits: a few plain formats only, and no image larger than any photograph.

Grey images stay grey if the whole set is grey and become colour otherwise. Transparent images are composited over
white, as in a browser. 16-bit grey keeps its upper 8 bits. EXIF orientation is applied.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from moca.data.source import BLOCK_BYTES, Block, Pixels

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM")
"""Only formats that need no interpreter or external program."""
_UNREAD = (".tif", ".tiff", ".heic", ".heif", ".avif")
SUFFIXES = (".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".ppm", ".pgm", *_UNREAD)
"""Suffixes that count as images, including formats that cannot be read, so that these are reported, not ignored."""
MAX_PIXELS = 1 << 26
Item = str | bytes
"""A path, or the bytes of a file."""


class TooLarge(ValueError):
    """Raised for an image with more pixels than the limit."""


def decode(item: Item, size: int | None = None, colour: bool = False, most: int = MAX_PIXELS) -> Pixels:
    """Decode one image of at most `most` pixels as (height, width, channels)."""
    with _opened(item) as file, Image.open(file, formats=FORMATS) as opened:
        if opened.width * opened.height > most:
            raise TooLarge(f"{opened.width}x{opened.height} pixels are more than {most:,}")
        return pixels(opened, size, colour)


def pixels(opened: Image.Image, size: int | None = None, colour: bool = False) -> Pixels:
    """The pixels of a PIL image as (height, width, channels), cropped and scaled to `size` if given."""
    image = ImageOps.exif_transpose(opened) if "exif" in opened.info else opened
    if image.mode == "I;16" or (image.mode == "I" and opened.format == "PPM"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    wanted = "L" if image.mode in ("1", "L", "LA") and not colour else "RGB"
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of type {image.mode} are not supported")
    if image.has_transparency_data:
        image = over_white(image)
    if image.mode != wanted:
        image = image.convert(wanted)
    if size is not None and image.size != (size, size):
        image = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
    shape = (image.height, image.width, len(image.getbands()))
    return np.frombuffer(image.tobytes(), np.uint8).reshape(shape)


def over_white(image: Image.Image) -> Image.Image:
    """An image with transparency, composited over white."""
    ground = Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground.convert("RGB")


def _opened(item: Item) -> IO[bytes]:
    if isinstance(item, bytes):
        return io.BytesIO(item)
    if item.lower().endswith(_UNREAD):
        raise ValueError(f"{item.rpartition('.')[2].upper()} files are not read; save it as PNG or JPEG")
    if not stat.S_ISREG(os.stat(item).st_mode):  # noqa: PTH116 - one call per image
        raise ValueError("a pipe, socket or device, not a file")  # opening a pipe would wait for ever
    return open(item, "rb")  # noqa: PTH123 - likewise


def decode_chunk(items: Iterable[Item], start: int, size: int | None, colour: bool) -> Iterator[Block]:
    """Decode items, the first of which is row `start` of its split, into blocks of images of one shape. Unreadable ones
    are listed in their block.

    A block ends where the next image would take it over BLOCK_BYTES, so that large images do not pile up.
    """
    images: list[Pixels] = []
    rows: list[int] = []
    bad: list[tuple[int, str]] = []
    for row, item in enumerate(items, start):
        try:
            image = decode(item, size, colour)
        except Exception as error:
            bad.append((row, reason(error)))
            continue
        if images and image.shape != images[0].shape:
            yield Block(_stacked(images), np.array(rows), bad)
            images, rows, bad = [], [], []
        images.append(image)
        rows.append(row)
        if (len(images) + 1) * image.nbytes > BLOCK_BYTES:
            yield Block(_stacked(images), np.array(rows), bad)
            images, rows, bad = [], [], []
    yield Block(_stacked(images), np.array(rows, np.int64), bad)


def _stacked(images: list[Pixels]) -> Pixels:
    if len(images) == 1:
        return images[0][None]
    return np.stack(images) if images else np.empty((0, 0, 0, 3), np.uint8)


def reason(error: Exception) -> str:
    """Why an image could not be read, in a few words."""
    if isinstance(error, UnidentifiedImageError):
        return f"not an image of a known format ({', '.join(FORMATS)})"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"more than {MAX_PIXELS:,} pixels"
    if isinstance(error, FileNotFoundError):
        linked = Path(error.filename).is_symlink()
        return "a link to a file that does not exist" if linked else "there is no such file; check its path"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
