"""Readers, one module per container. A folder or file is recognised by its content, never by a flag."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from moca.data.place import readable
from moca.data.readers import (
    cifar_binary,
    cifar_python,
    folder,
    idx,
    mini_imagenet,
    npz,
    parquet,
    sprites,
    tiny_imagenet,
)
from moca.data.source import Options, Source
from moca.errors import MocaError

READERS: tuple[ModuleType, ...] = (
    cifar_python, cifar_binary, idx, npz, parquet, sprites, tiny_imagenet, mini_imagenet, folder
)  # fmt: skip
"""In the order in which they are tried: specific before general."""
_IMAGE_FILES = (parquet, tiny_imagenet, mini_imagenet, folder)
"""Readers that decode images one by one and can resize them on the way."""
_DEPTH, _WIDTH = 4, 50


def recognised(path: Path) -> bool:
    """Whether a reader recognises this folder or file."""
    return any(reader.recognise(path) for reader in READERS)


def open_source(path: Path, options: Options) -> Source:
    """Open the data set in a folder or file, or in the one subfolder that holds one."""
    at = located(path)
    reader = _reader(at)
    source: Source = reader.read(at, options)
    if options.size is not None and reader not in _IMAGE_FILES:
        raise MocaError(
            f"the images of {at} ({source.kind}) stay in the size that they have; leave out size= (image_size= of a "
            "run)"
        )
    return replace(source, classes=source.classes and tuple(map(readable, source.classes)))


def scalable(path: Path) -> bool:
    """Whether the images of a folder can be resized while they are read."""
    with suppress(MocaError):
        return _reader(located(path)) in _IMAGE_FILES
    return False


def _reader(at: Path) -> ModuleType:
    return next(reader for reader in READERS if reader.recognise(at))


def located(path: Path) -> Path:
    """The folder or file of the data set, searched to a limited depth and width."""
    level = [path]
    for _ in range(_DEPTH):
        found = [at for at in level if recognised(at)]
        if len(found) > 1:
            listed = ", ".join(at.name for at in found[:5])
            raise MocaError(f"{path} holds several data sets ({listed}); give one of these folders")
        if found:
            return found[0]
        level = [inner for at in level if at.is_dir() for inner in sorted(at.iterdir()) if inner.is_dir()][:_WIDTH]
    why = folder.why_not(path) or (
        "; give an image folder (a subfolder for each of two classes or more: <class>/*.png or train/<class>/*.png), "
        "CIFAR, idx, npz or parquet files, or an archive of these"
    )
    raise MocaError(f"{path} holds no data set that moca recognises{why}")
