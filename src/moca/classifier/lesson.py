"""A lesson: what is new in a folder is learnt, judged on images held out, and put to use unless it does harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
from moca.classifier.images import Said, digests_of, labelled
from moca.data import splitting
from moca.data.arrays import Label
from moca.data.fingerprint import Digests
from moca.errors import MocaError

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class Lesson:
    """What came of it. Accuracies are on held-out images, as shares; None where there are none."""

    images: int
    """Learnt from."""
    known: int
    """Left out, as they were learnt before."""
    held: int
    """Held out of them, to judge by."""
    new_classes: list[Label] = field(default_factory=list)
    came_again: list[Label] = field(default_factory=list)
    left_out: str = ""
    """Which images could not be read, in a line."""
    old_before: float | None = None
    """Of the classes known before, before the lesson."""
    old_after: float | None = None
    new_after: float | None = None
    """Of the classes of this lesson."""
    version: int = 0
    used: bool = True
    """Whether the new version is in use."""
    otherwise: dict[str, int] = field(default_factory=dict)
    """How many were learnt before as which other class, and are corrected."""
    first_otherwise: str = ""
    """The first of these: its file, or its number."""
    old_held: int = 0
    """Images that the accuracy of the classes known before rests on."""
    unjudged: list[Label] = field(default_factory=list)
    """Classes of this lesson of which no image is held out, so that no accuracy says anything of them."""
    correct: list[tuple[Label, int, int]] = field(default_factory=list)
    """Each class, old ones too: how many held-out images are classified correctly after the lesson, of how many."""
    held_out: float = 0.0
    """The share that was to be held out."""
    twice: int = 0
    """Images that another class of the same lesson had before, so that they do not count."""
    first_twice: tuple[str, ...] = ()
    """The first of these: the one that counts, and the one that does not."""
    copies: int = 0
    """Images that the same class had already in this lesson, so that they do not count."""
    first_copy: tuple[str, ...] = ()
    """The first of these: the one that counts, and its copy."""

    @property
    def missed(self) -> list[Label]:
        """Classes, old ones too, none of whose held-out images is classified correctly after the lesson."""
        return [name for name, right, _ in self.correct if not right]

    @property
    def each_alike(self) -> float | None:
        """Accuracy after the lesson where every class counts as much as any other, however many images are held out
        of it."""
        return share_of([right / held for _, right, held in self.correct])


def teach(
    folder: ModelFolder,
    images: Any,
    labels: Any = None,
    *,
    options: dict[str, Any] | None = None,
    held_out: float = 0.1,
    tolerate: float = 0.2,
    device: str = "auto",
    said: Said | None = None,
    names: Sequence[str] | None = None,
    say: Callable[[str], None] | None = None,
    read: Said | None = None,
) -> Lesson:
    """Teach a model what is new among labelled images, or make one with these options.

    `names` are what images without a file are called. Where a model is made, `say` gets in a line what was chosen
    for it; also where one is taught, that folders which may be classes are learnt as one. `read` is told how many of
    how many files have been read, `said` how many steps have been learnt. The new version is put to use unless the
    accuracy on old classes fell by more than `tolerate`; a lesson that fails changes nothing.
    """
    with folder.teaching():
        classifier = _taken_up(folder, options or {}, device)
        known, kept = classifier.__sklearn_is_fitted__(), classifier.kept_
        if known:
            classifier.refuse_pictures(images)
        lost = list[str]()
        shape = classifier.shape_ if known else None
        x, y, files = labelled(images, labels, shape, classifier.image_size, lost.append, read)
        y, digests = classifier.of_known_kind(y), digests_of(x)
        if were := kept.otherwise(digests, y):  # the last word counts
            classifier.unlearn(x[list(were)], digests[list(were)])
            kept = classifier.kept_
        fresh = _unseen(digests, kept.seen)
        otherwise = Counter(str(was) for was in were.values())
        first = _called(next(iter(were)), files or names) if were else ""
        again = list(_again(digests, kept.seen))
        copies = [(one, other) for one, other in again if y[one] == y[other]]
        twice = [(one, other) for one, other in again if y[one] != y[other]]
        first_copy, first_twice = (
            tuple(_called(place, files or names) for place in found[0]) if found else () for found in (copies, twice)
        )
        before = classifier.classes_.tolist() if known else []
        if say and files and (line := _classes_within(images, files, y, before)):
            say(line)
        if not fresh.any():
            return Lesson(0, len(x), 0, left_out="".join(lost), version=folder.current)
        x, y, digests = x[fresh], [y[i] for i in np.flatnonzero(fresh)], digests[fresh]
        classes = sorted(set(y), key=str)
        number = {name: place for place, name in enumerate(classes)}
        places = np.array([number[name] for name in y])
        held = torch.from_numpy(splitting.held_out(places, digests, list(map(str, classes)), held_out, seed=0, least=0))
        answers = [y[i] for i in torch.nonzero(held).flatten().tolist()]
        old_before = share_of(kept.judged(classifier))

        def step(done: int, steps: int) -> None:
            if done == 1 and not known and say and (line := _choices_told(classifier, options or {})):
                say(line)
            if said:
                said(done, steps)

        classifier.learn(x[~held], [y[i] for i in torch.nonzero(~held).flatten().tolist()], said=step)
        judged = classifier.prepared(x[held]) if held.any() else x[held]
        both = kept.beside(judged, answers)
        right = both.judged(classifier)
        old_after = share_of(right[: len(kept.labels)])
        lesson = Lesson(
            images=int((~held).sum()),
            known=int((~fresh).sum()) - len(again),
            held=int(held.sum()),
            new_classes=[c for c in classifier.classes_.tolist() if c not in before],
            came_again=sorted({c for c in y if c in before}, key=str),
            left_out="".join(lost),
            old_before=old_before,
            old_after=old_after,
            new_after=share_of(right[len(kept.labels) :]),
            version=folder.next,
            used=old_before is None or old_after is None or old_before - old_after <= tolerate,
            otherwise=dict(otherwise),
            first_otherwise=first,
            old_held=len(kept.labels),
            unjudged=[name for name in classes if name not in both.labels],
            correct=both.by_class(right),
            held_out=held_out,
            twice=len(twice),
            first_twice=first_twice,
            copies=len(copies),
            first_copy=first_copy,
        )
        classifier.kept_ = both.learnt(digests, y)
        folder.add(classifier, asdict(lesson), lesson.used)
        return lesson


def share_of(right: Sequence[float]) -> float | None:
    """What is classified correctly, as a share; None where nothing is judged."""
    return sum(right) / len(right) if right else None


def forget(folder: ModelFolder, label: Label, *, all_versions: bool = False, device: str = "auto") -> int:
    """A new version without a class, put to use, whose number is given; with `all_versions` the class is gone from all
    others, too. What was forgotten before can so be removed from the others later."""
    with folder.teaching():
        having = [about["version"] for about in folder.versions if label in about["classes"]]
        if having and folder.current not in having and not all_versions:
            raise MocaError(
                f"version {folder.current} of model '{folder.path}', which is in use, has no class {label!r}; "
                f"{', '.join(map(str, having))} still have it, and lose it with --all-versions"
            )
        if folder.current in having or not having:
            without = folder.load(Classifier, device=device).forget(label)
            kept = without.kept_
            folder.add(without, {"forgot": label, "correct": kept.by_class(kept.judged(without))})
        for number in having if all_versions else ():
            if folder.about(number)["classes"] == [label]:  # it knows nothing else
                folder.remove(number)
                continue
            folder.rewrite(number, folder.load(Classifier, number, device=device).forget(label))
        return folder.current


def _taken_up(folder: ModelFolder, options: dict[str, Any], device: str) -> Classifier:
    """The model as it is; a finished run becomes the first version of one; where there is none, a new one."""
    if not folder.exists() and not folder.is_run():
        folder.check_free()  # before a lesson is held for nothing
        return Classifier(**options, device=device)
    if options:
        raise MocaError(
            f"model '{folder.path}' is there already, and {', '.join(options)} cannot be changed any more; leave "
            "that out, or make another model"
        )
    classifier = folder.load(Classifier, device=device)
    if not folder.exists():
        folder.add(classifier)
    return classifier


def _classes_within(
    folder: str | os.PathLike[str], files: Sequence[str], labels: Sequence[Label], known: Container[Label]
) -> str:
    """In one line that the images of a new class lie in several folders, as if these were classes; empty otherwise."""
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


def _called(place: int, names: Sequence[str] | None) -> str:
    return names[place] if names else f"image {place + 1}"


def _choices_told(classifier: Classifier, given: Container[str]) -> str:
    """In one line what was chosen for a new model; empty where nothing was."""
    _, height, width = classifier.shape_
    choices = {"encoder": f"encoder {classifier.settings_.model}", "image_size": f"images of {width}x{height}",
               "augment": "mirrored at random" * (classifier.settings_.augment and classifier.protocol_.flip),
               "epochs": f"{classifier.epochs_} epochs"}  # fmt: skip
    told = ", ".join(words for option, words in choices.items() if words and option not in given)
    return told and f"chosen: {told} (by the size and number of the images; any option given wins)"


def _again(digests: Digests, seen: Tensor | None) -> Iterator[tuple[int, int]]:
    """The places of images that come again within the lesson, each behind the first; of those learnt before none."""
    known, first = _rows_of(seen), dict[bytes, int]()
    for place, row in enumerate(digests):
        before = first.setdefault(row.tobytes(), place)
        if before != place and row.tobytes() not in known:
            yield before, place


def _unseen(digests: Digests, seen: Tensor | None) -> NDArray[np.bool_]:
    """The images that have not been learnt from before, each once."""
    known = _rows_of(seen)
    fresh = np.zeros(len(digests), bool)
    for place, row in enumerate(digests):
        if row.tobytes() not in known:
            known.add(row.tobytes())
            fresh[place] = True
    return fresh


def _rows_of(seen: Tensor | None) -> set[bytes]:
    return set() if seen is None else {row.tobytes() for row in seen.numpy()}
