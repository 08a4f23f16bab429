"""Folders of images: train/<class>/* and test/<class>/*, or just <class>/*. Classes are numbered in sorted order."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from moca.data.decode import SUFFIXES
from moca.data.decoders import encoded_part, file_chunks
from moca.data.place import is_broken, readable
from moca.data.source import Options, Part, Source, unused_note
from moca.errors import MocaError

_TRAIN = ("train", "training", "train_set", "training_set")
_TEST = ("test", "testing", "test_set", "val", "valid", "validation", "val_set")
_DEPTH, _DEEPER = 1, 3
"""Levels below a class's folder in which its images may lie, and further levels searched for images that lie too
deep."""


def recognise(path: Path) -> bool:
    """Whether a folder has a subfolder of training images, or at least two classes."""
    if not path.is_dir():
        return False
    return bool(_splits(path, _TRAIN)) or (len(class_folders(path)) > 1 and has_classes(path) and not splits(path))


def read(path: Path, options: Options) -> Source:
    """Read both splits if there are folders for them, otherwise all images as one."""
    trains, tests = _splits(path, _TRAIN), _splits(path, _TEST)
    if not trains:
        return Source("image folder", part(images_by_class(path), options), None, tuple(class_folders(path)))
    train, notes = trains[0], unused_note(trains) + unused_note(tests)
    found = images_by_class(train)
    if not tests:
        return Source("image folder", part(found, options), None, tuple(found), notes)
    test = tests[0]
    test_files = images_by_class(test)
    strange = sorted(set(test_files) - set(found))
    if strange:
        raise MocaError(f"class '{strange[0]}' is in {test} but not in {train}; both must hold the same classes")
    missing = sorted(set(found) - set(test_files))
    if missing:
        raise MocaError(f"class '{missing[0]}' is in {train} but not in {test}; both must hold the same classes")
    return Source("image folder", part(found, options), part(test_files, options), tuple(found), notes)


def _splits(path: Path, names: Sequence[str]) -> list[Path]:
    """Subfolders with one of these names, in any case, that hold classes; in the order of `names`."""
    found = [name for name in class_folders(path) if name.lower() in names and has_classes(path / name)]
    return [path / name for name in sorted(found, key=lambda name: names.index(name.lower()))]


def splits(path: Path) -> list[Path]:
    """Subfolders that are splits (they hold classes and are not classes), training first; usually none."""
    train, test = _splits(path, _TRAIN), _splits(path, _TEST)
    return train + test if train or len(test) == len(class_folders(path)) else []


def has_classes(path: Path) -> bool:
    """Whether at least one subfolder holds an image."""
    return any(_any_image(path / name, _DEPTH) for name in class_folders(path))


def why_not(path: Path) -> str:
    """Why a folder does not have a subfolder per class, as the end of a sentence; empty if the reason is unknown."""
    if not path.is_dir():
        return ""
    entries, classes = _entries(path), [name for name in class_folders(path) if _any_image(path / name, _DEPTH)]
    if not entries:
        return ": it is empty"
    if len(classes) == 1:
        return f": it has one class ('{classes[0]}'), and at least two are needed"
    if not classes and any(_is_image(entry) for entry in entries):
        return ": the images are in it directly; if they are one class, give the folder above it"
    if not classes and any(_any_image(path / name, _DEPTH + _DEEPER) for name in class_folders(path)):
        return ": its images lie deeper; those of a class are in its folder or in one within that"
    return ""


def class_folders(path: Path) -> list[str]:
    """The names of the subfolders, sorted, without hidden ones."""
    return sorted(e.name for e in _entries(path) if _is_dir(e) and not is_hidden(e.name))


def is_hidden(name: str) -> bool:
    """Whether a file or folder is hidden, or was put into an archive by macOS."""
    return name.startswith((".", "__MACOSX"))


def images_by_class(path: Path) -> dict[str, list[str]]:
    """The image files of each class, sorted; raises if a class has none."""
    found = files_by_class(path)
    refuse_mostly_empty(path, found)
    if empty := [name for name, files in found.items() if not files]:
        raise MocaError(f"class '{empty[0]}' has no image ({path / empty[0]}); remove the folder or add images to it")
    return found


def files_by_class(path: Path) -> dict[str, list[str]]:
    """The same, also for classes without images."""
    for entry in _entries(path):
        if is_broken(Path(entry.path)) and not Path(entry.name).suffix:  # probably a class
            raise MocaError(f"{entry.path} is a link to something that does not exist; mend it or remove it")
    return {name: sorted(_images(path / name, _DEPTH)) for name in class_folders(path)}


def refuse_mostly_empty(path: Path, found: dict[str, list[str]]) -> None:
    """Raise if most folders are without images, because they are then probably no classes."""
    full = sum(map(bool, found.values()))
    if full < len(found) / 2:
        raise MocaError(
            f"only {full} of the {len(found)} folders in {path} hold images; "
            "give the folder that has one subfolder for each class"
        )


def part(files: dict[str, list[str]], options: Options) -> Part:
    """A split from the files of each class; classes are numbered in the order of the dictionary."""
    paths = [file for group in files.values() for file in group]
    labels = np.repeat(np.arange(len(files)), [len(group) for group in files.values()])
    return encoded_part(file_chunks(paths), labels, lambda row: readable(paths[row]), options)


def _entries(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        raise MocaError(f"cannot read the folder {path} ({error.strerror}); check its permissions") from None


def _is_image(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(SUFFIXES) and not is_hidden(entry.name) and not _is_dir(entry)


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _images(path: Path, depth: int, linked: bool = False) -> list[str]:
    """Images in a class's folder and its subfolders, to a limited depth: Tiny-ImageNet has train/<class>/images/*."""
    files = []
    for entry in _entries(path):
        if _is_image(entry):
            files.append(entry.path)
        elif is_hidden(entry.name) or not _is_dir(entry):
            continue
        elif depth:
            files += _images(Path(entry.path), depth - 1, linked or entry.is_symlink())
        elif not linked and _any_image(Path(entry.path), _DEEPER):  # links may lead to a parent folder
            raise MocaError(
                f"{readable(entry.path)} lies too deep: the images of a class are in its folder or in one within that; "
                "move them up, or give the folder that has one subfolder for each class"
            )
    return files


def _any_image(path: Path, depth: int) -> bool:
    entries = _entries(path)
    if any(_is_image(entry) for entry in entries):
        return True
    return depth > 0 and any(
        _any_image(Path(e.path), depth - 1) for e in entries if _is_dir(e) and not is_hidden(e.name)
    )
