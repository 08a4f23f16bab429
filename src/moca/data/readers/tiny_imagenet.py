"""Tiny-ImageNet-200 as published: train/<wnid>/images/*, and validation images in one folder with a list of labels."""

from pathlib import Path

from moca.data.readers.folder import images_by_class, part
from moca.data.source import Options, Source
from moca.errors import MocaError

_LIST = Path("val", "val_annotations.txt")


def recognise(path: Path) -> bool:
    """Whether a folder has training folders, validation images and the list of their labels."""
    return (path / "train").is_dir() and (path / _LIST).is_file() and (path / "val" / "images").is_dir()


def read(path: Path, options: Options) -> Source:
    """Read the training images, and the validation images as the test set: the published test images have no labels."""
    train = images_by_class(path / "train")
    test: dict[str, list[str]] = {name: [] for name in train}
    for number, line in enumerate((path / _LIST).read_text("utf-8", "replace").splitlines(), 1):
        file, *rest = line.split("\t")
        if not rest or rest[0] not in test or Path(file).name != file:
            raise MocaError(f"line {number} of {path / _LIST} names no file and class of this set: '{line[:60]}'")
        test[rest[0]].append(str(path / "val" / "images" / file))
    return Source("Tiny-ImageNet folder", part(train, options), part(test, options), tuple(train))
