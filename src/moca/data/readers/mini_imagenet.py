"""mini-ImageNet in the layout of few-shot benchmarks: 64, 16 and 20 classes in three folders, or all 100 in one."""

from pathlib import Path

from moca.data import catalogue
from moca.data.readers.folder import class_folders, images_by_class, part
from moca.data.source import Options, Source

_HELD_OUT = 100


def _places(path: Path) -> list[Path]:
    splits = [path / name for name in ("train", "val", "test") if (path / name).is_dir()]
    return splits or [path]


def recognise(path: Path) -> bool:
    """Whether the folders hold exactly the hundred classes, each once."""
    if not path.is_dir():
        return False
    found = [name for place in _places(path) for name in class_folders(place)]
    return sorted(found) == sorted(catalogue.known("miniimagenet").classes)


def read(path: Path, options: Options) -> Source:
    """Read all classes; the first hundred images of each are the test set, as in online continual learning."""
    files = dict(sorted((name, group) for place in _places(path) for name, group in images_by_class(place).items()))
    train = part({name: group[_HELD_OUT:] for name, group in files.items()}, options)
    test = part({name: group[:_HELD_OUT] for name, group in files.items()}, options)
    return Source("mini-ImageNet few-shot folders", train, test, tuple(files))
