"""Decode uploaded images to the shape that the model takes; an unusable one gives a 4xx response that names it."""

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
    """An uploaded file."""

    name: str
    content: bytes


async def read(files: Sequence[UploadFile], limits: Limits) -> list[Upload]:
    """Read all uploaded files; refuse more than the limit."""
    if len(files) > limits.images:
        raise HTTPException(413, f"{len(files)} images are more than the {limits.images} of a request")
    return [Upload(_short(file.filename or "image"), await file.read()) for file in files]


def _short(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name[:200]


def pixels_of(uploads: Sequence[Upload], shape: Shape, limits: Limits) -> list[Pixels]:
    """Decode each image exactly as `moca predict` and `moca learn` decode a file."""
    return [_pixels(upload, shape, limits.pixels) for upload in uploads]


class Readable(NamedTuple):
    """The usable images, their names, and one line for each of the others."""

    images: list[Pixels]
    names: list[str]
    left_out: list[str]


def readable(uploads: Sequence[Upload], shape: Shape, limits: Limits) -> Readable:
    """Decode the usable images; raise a 4xx only if there are none."""
    images, names, errors = list[Pixels](), list[str](), list[HTTPException]()
    for upload in uploads:
        try:
            images.append(_pixels(upload, shape, limits.pixels))
            names.append(upload.name)
        except HTTPException as error:
            errors.append(error)
    if not images:
        none = f"none of the {len(uploads)} images can be used; the first: " if len(uploads) > 1 else ""
        raise HTTPException(errors[0].status_code, none + errors[0].detail)
    return Readable(images, names, [error.detail for error in errors])


def _pixels(upload: Upload, shape: Shape, most: int) -> Pixels:
    """Decode one image straight to the model's shape: a hundred large images would not fit in RAM."""
    _, height, width = shape
    try:
        return fitted(decode(upload.content, height if height == width else None, colour=True, most=most), shape)
    except (TooLarge, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        line = str(error) if isinstance(error, TooLarge) else f"more than {most:,} pixels"
        raise HTTPException(413, f"'{upload.name}' cannot be used: {line}") from None
    except Exception as error:
        raise HTTPException(415, f"'{upload.name}' cannot be used: {reason(error)}") from None
