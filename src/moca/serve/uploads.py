"""Images that came with a request, as pixels that the model takes; what cannot be used is a 4xx that says which."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from fastapi import HTTPException, UploadFile
from PIL import Image

from moca.classifier.images import Shape, fitted
from moca.data.decode import TooLarge, decode, reason
from moca.data.source import Pixels
from moca.serve.limits import Limits


class Upload(NamedTuple):
    """A file as it came."""

    name: str
    content: bytes


async def read(files: Sequence[UploadFile], limits: Limits) -> list[Upload]:
    """All files, if they are not too many."""
    if len(files) > limits.images:
        raise HTTPException(413, f"{len(files)} images are more than the {limits.images} of a request")
    return [Upload(_short(file.filename or "image"), await file.read()) for file in files]


def _short(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name[:200]


def pixels_of(uploads: Sequence[Upload], shape: Shape, limits: Limits) -> list[Pixels]:
    """Each image as it is read from a file by `moca predict` and `moca learn`."""
    return [_pixels(upload, shape, limits.pixels) for upload in uploads]


class Readable(NamedTuple):
    """The images that can be used, their names, and a line for each of the others."""

    images: list[Pixels]
    names: list[str]
    left_out: list[str]


def readable(uploads: Sequence[Upload], shape: Shape, limits: Limits) -> Readable:
    """The images that can be used; only where there is none is this a 4xx."""
    images, names, lost = list[Pixels](), list[str](), list[HTTPException]()
    for upload in uploads:
        try:
            images.append(_pixels(upload, shape, limits.pixels))
            names.append(upload.name)
        except HTTPException as error:
            lost.append(error)
    if not images:
        none = f"none of the {len(uploads)} images can be used; the first: " if len(uploads) > 1 else ""
        raise HTTPException(lost[0].status_code, none + lost[0].detail)
    return Readable(images, names, [error.detail for error in lost])


def _pixels(upload: Upload, shape: Shape, most: int) -> Pixels:
    """At once in the shape that the model takes: a hundred large images would not fit the memory."""
    _, height, width = shape
    try:
        return fitted(decode(upload.content, height if height == width else None, colour=True, most=most), shape)
    except (TooLarge, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        line = str(error) if isinstance(error, TooLarge) else f"more than {most:,} pixels"
        raise HTTPException(413, f"'{upload.name}' cannot be used: {line}") from None
    except Exception as error:
        raise HTTPException(415, f"'{upload.name}' cannot be used: {reason(error)}") from None
