"""What is remarked before a lesson is learnt, or of images to test with: settings chosen for a new model, and classes
that may be meant otherwise."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from moca.classifier.summary import listed
from moca.data.arrays import Label
from moca.data.decode import FORMATS, SUFFIXES
from moca.data.place import readable
from moca.data.readers.folder import files_by_class, is_hidden
from moca.wording import counted

if TYPE_CHECKING:
    import os

    from moca.classifier.classifier import Classifier

_OF_SYSTEMS = {"thumbs.db", "desktop.ini"}
"""Files that Windows puts into folders of images."""
_OF_MODELS = "model.json", "lock"
"""Files in the folder of a model; of one that is being made, only the last."""
_SIZES = 100
"""How many image files are looked at to tell how large the images are."""


def classes_within(
    folder: str | os.PathLike[str], files: Sequence[str], labels: Sequence[Label], known: Container[Label]
) -> str:
    """A note that the images of a new class lie in several subfolders, which may be the classes; empty if none does."""
    places = dict[Label, dict[str, None]]()
    for file, label in zip(files, labels, strict=True):
        places.setdefault(label, {})[Path(file).parent.name] = None
    for label, inner in places.items():
        if len(inner) > 1 and label not in known:
            shown = [*list(inner)[:3], *["..."] * (len(inner) > 3)]
            return (
                f"the images of '{label}' lie in {len(inner)} folders ({', '.join(shown)}) and are learnt "
                f"as one class; if those folders are the classes, give {Path(folder, str(label))}"
            )
    return ""


def not_read_told(folder: str | os.PathLike[str]) -> str:
    """A note about files in a folder of classes that may be images but are not read, and about classes without images;
    empty if there are none."""
    place = Path(folder).expanduser()
    beside = [file for file in place.glob("*") if _is_image(file)]
    models = {file.parent for name in _OF_MODELS for file in place.glob(f"*/{name}")}  # where "." is learnt
    inside = [file for pattern in ("*/*", "*/*/*") for file in place.glob(pattern)
              if not _is_image(file) and not models & {*file.parents}]  # fmt: skip
    notes = []
    for files, one in ((beside, "image beside the class folders"), (inside, "file without the suffix of an image")):
        meant = [file for file in files if file.is_file() and not any(map(is_hidden, file.relative_to(place).parts))]
        if meant := [file for file in meant if file.name.lower() not in _OF_SYSTEMS]:
            kind, _, where = one.partition(" ")
            notes.append(f"{counted(len(meant), kind)} {where} (the first: {readable(str(min(meant)))})")
    if empty := [name for name, files in files_by_class(place).items() if not files and place / name not in models]:
        notes.append(f"the empty {'folder' if len(empty) == 1 else 'folders'} {listed(empty)}")
    return f"not read: {'; '.join(notes)}" if notes else ""


def _is_image(file: Path) -> bool:
    return file.name.lower().endswith(SUFFIXES)


def alike_told(news: Sequence[Label], known: Sequence[Label]) -> str:
    """A note about new classes that may be known ones in another spelling; empty if there are none."""
    return " ".join(
        f"'{new}' is a new class, spelt almost like '{old}'; if they are one, teach its images again as '{old}'."
        for new, old in _alike(news, known)
    )


def unknown_told(labels: Sequence[Label], known: Sequence[Label], so: str) -> str:
    """A note about images of classes that the model does not know, which may be known ones in another spelling, and
    what becomes of them; empty if there are none."""
    names = {*known}
    strange = Counter(label for label in labels if label not in names)
    if not strange:
        return ""
    classes = counted(len(strange), "class", "classes")
    are = f"{strange.total()} of {counted(len(labels), 'image is', 'images are')} of {classes}"
    alike = [f"; '{new}' is spelt almost like '{old}'" for new, old in _alike([*strange], known)]
    return f"{are} that the model does not know ({listed([*strange])}) and {so}{''.join(alike)}"


def unrecorded_told(labels: Sequence[Label], classifier: Classifier, then: str) -> str:
    """A note about classes among these labels that were learnt in a run, which does not record its images, and what
    follows for those that are given again; empty if there are none."""
    recorded = classifier.kept_.seen_of
    unrecorded = [name for name in classifier.classes_.tolist() if name not in recorded and name in {*labels}]
    if not unrecorded or not classifier.was_run:
        return ""
    return f"the run did not record which images of {listed(unrecorded)} it was trained on; those among these {then}"


def _alike(news: Sequence[Label], known: Sequence[Label]) -> list[tuple[Label, Label]]:
    """New names that are spelt almost like a known one, each with that one."""
    pairs = ((new, next((old for old in known if _spelt_alike(str(new), str(old))), None)) for new in news)
    return [(new, old) for new, old in pairs if old is not None]


def _spelt_alike(one: str, other: str) -> bool:
    """Whether two names differ only in case, in how words are joined, in the order of letters, or in one letter too
    many; numbers must be the same, since classes are often numbered."""
    if re.findall(r"\d+", one) != re.findall(r"\d+", other):
        return False
    letters = Counter(re.sub(r"[\s_-]", "", one.casefold()))
    letters.subtract(re.sub(r"[\s_-]", "", other.casefold()))
    return sum(map(abs, letters.values())) <= (min(len(one), len(other)) > 3)


def chosen_settings(classifier: Classifier, given: Container[str], files: Sequence[str]) -> str:
    """A line that names the settings chosen for a new model; empty if all were given."""
    _, height, width = classifier.shape_
    size = f"images of {width}x{height}{_scaled_from(files, width, height)}"
    choices = {"encoder": f"encoder {classifier.settings_.model}", "image_size": size,
               "augment": "mirrored at random" * (classifier.settings_.augment and classifier.protocol_.flip),
               "epochs": f"{classifier.epochs_} epochs"}  # fmt: skip
    chosen = ", ".join(words for option, words in choices.items() if words and option not in given)
    return chosen and f"chosen: {chosen} (from the size and number of the images; options override)"


def _scaled_from(files: Sequence[str], width: int, height: int) -> str:
    """A clause that tells how large the images were before they were scaled down; empty if they were not larger. Looks
    at some of the files only, because there may be many."""
    sizes = set[tuple[int, int]]()
    for file in files[:: 1 + len(files) // _SIZES]:
        with suppress(Exception), Image.open(file, formats=FORMATS) as image:  # a name may not be spelt as it is
            sizes.add(image.size)
    largest = max(sizes, key=math.prod, default=(0, 0))
    if math.prod(largest) <= width * height:
        return ""
    return f", scaled down from {'up to ' * (len(sizes) > 1)}{largest[0]}x{largest[1]} (--image-size keeps more)"
