"""Readers, one container a file. Which one reads a folder or file is decided by what is in it, never by a flag."""

from pathlib import Path
from types import ModuleType

from moca.data.readers import npz
from moca.data.source import Options, Source
from moca.errors import MocaError

READERS: tuple[ModuleType, ...] = (npz,)
"""In the order of asking: the particular before the general."""


def open_source(path: Path, options: Options) -> Source:
    """The data set in a folder or file, or one level further down in a folder that holds nothing else."""
    at = path
    while True:
        for reader in READERS:
            if reader.recognise(at):
                source: Source = reader.read(at, options)
                return source
        inside = [p for p in at.iterdir() if not p.name.startswith(".")] if at.is_dir() else []
        folders = [p for p in inside if p.is_dir() and p.name != "__MACOSX"]
        if len(folders) != 1:
            raise MocaError(
                f"{path} holds no data set that is known here; give an image folder (train/<class>/*.png), "
                "CIFAR, idx, npz or parquet files, or an archive of these"
            )
        at = folders[0]
