"""A lesson: learn the new images of a folder, evaluate on held-out images, and use the result unless it did harm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
from moca.classifier.held_out import Kept
from moca.classifier.images import digests_of, labelled
from moca.classifier.record import Lesson, share_of
from moca.classifier.remarks import alike_told, chosen_settings, classes_within, not_read_told, unrecorded_told
from moca.data import splitting
from moca.data.arrays import Label
from moca.data.fingerprint import Digests
from moca.data.progress import Watch, silent
from moca.defaults import recipe_places, with_recipe
from moca.errors import MocaError
from moca.settings import Run, validate

_AGAIN = "are learnt again, and flatter the accuracy where they are held out"
"""What becomes of images that a model began with as a run."""
_HALF = 0.5
"""Share of their accuracy that old classes may lose: points alone would let a model with 20 % lose everything."""
_SURE = 1.645
"""Standard errors beyond which 5 % of a normal distribution lie, on one side."""


def teach(
    folder: ModelFolder,
    images: Any,
    labels: Any = None,
    *,
    options: dict[str, Any] | None = None,
    held_out: float = 0.1,
    tolerate: float = 0.2,
    device: str = "auto",
    names: Sequence[str] | None = None,
    relearn: bool = False,
    say: Callable[[str], None] | None = None,
    watch: Watch = silent,
) -> Lesson:
    """Teach a model the new images among labelled ones; create it with these options if there is none. An existing
    model takes only options with the values that it was created with, but `epochs`, which are then this lesson's own. A
    finished run becomes the first version of one.

    The new version is put into use unless the accuracy on old classes surely fell by more than `tolerate`, or by more
    than half of what it was; the same lesson is then not taught again, but its version is put into use once `tolerate`
    allows it. A lesson that fails changes nothing. Images of classes that were forgotten on request are skipped unless
    `relearn`. `names` are used in messages for images without a file. `say` gets notes of one line: files that are not
    read, the settings chosen for a new model, and subfolders that may be classes but are learnt as one. `watch(stage,
    done, total)` is called while files are read, and as by `Classifier.learn`.
    """
    with folder.teaching():
        classifier = _load_or_create(folder, options or {}, device)
        known = classifier.__sklearn_is_fitted__()
        shape, before = (classifier.shape_, classifier.classes_.tolist()) if known else (None, [])
        usual = classifier.epochs
        classifier.epochs = (options or {}).get("epochs", usual)
        if known:
            classifier.refuse_pictures(images)
        x, y, files, unreadable = labelled(images, labels, shape, classifier.image_size, watch)
        names = files or names or [f"image {number}" for number in range(1, 1 + len(y))]
        given = _Images(x, classifier.of_known_kind(y), digests_of(x), names)
        forgotten = classifier.kept_.forgotten_among(given.digests, given.labels) if not relearn else ()
        given = given.at([index for index in range(len(y)) if index not in forgotten]) if forgotten else given
        if say and files and (line := not_read_told(images)):
            say(line)
        if say and files and (line := classes_within(images, given.names, given.labels, before)):
            say(line)
        if say and (line := alike_told([name for name in dict.fromkeys(given.labels) if name not in before], before)):
            say(line)
        if say and known and (line := unrecorded_told(given.labels, classifier, _AGAIN)):
            say(line)
        new, told = _what_is_new(classifier, given)
        told |= {"left_out": [*unreadable], "forgotten": len(forgotten)}
        if not new.labels:
            return Lesson(version=folder.current, in_use=folder.current, **told)
        kept, after = classifier.kept_, classifier.kept_.learnt(new.digests, new.labels)
        # A lesson of an older moca, which does not say its epochs, had those of the model.
        rejections = [(replace(was, epochs=was.epochs or usual), Kept(**has)) for was, has in folder.rejected()]
        rejected = _rejected_before(rejections, after, held_out, classifier.epochs)
        if rejected is not None:
            tolerable = _tolerable(rejected.old_before, rejected.old_after, rejected.old_held, tolerate)
            named_so = folder.about(rejected.version)["parent"] == folder.current  # no class was renamed since
            if tolerable and named_so:
                folder.use(rejected.version)
                rejected = replace(rejected, used=True, in_use=rejected.version)
                folder.rewrite_lesson(rejected.version, rejected)
            if named_so or not tolerable:
                return replace(rejected, in_use=folder.current, taught_before=True, **told)
        held = new.held_out(held_out)
        taught, judged = new.only(~held), new.only(held)
        old_before = share_of(kept.judged(classifier))

        def watched(stage: str, done: int, total: int) -> None:
            begins = stage == "learning" and done == 1
            if begins and not known and say and (line := chosen_settings(classifier, options or {}, files)):
                say(line)
            watch(stage, done, total)

        classifier.learn(taught.images, taught.labels, watch=watched)
        samples = classifier.prepared(judged.images) if judged.labels else judged.images
        both = kept.beside(samples, judged.labels)
        scores = both.scores(classifier)
        right, apart = both.right(scores, classifier.classes_.tolist()), kept.right(scores, before)
        old_after = share_of(right[: len(kept.labels)])
        used = _tolerable(old_before, old_after, len(kept.labels), tolerate)
        classes = sorted(set(new.labels), key=str)
        if folder.is_run():  # only now: a lesson that fails or is stopped changes nothing
            run = folder.load(Classifier, device=device)
            folder.add(run)  # as the first version
            classifier.continues_ = run.continues_
        lesson = Lesson(
            images=len(taught.labels),
            held=len(judged.labels),
            new_classes=[name for name in classifier.classes_.tolist() if name not in before],
            came_again=[name for name in classes if name in before],
            old_before=old_before,
            old_after=old_after,
            old_apart=share_of(apart),
            new_after=share_of(right[len(kept.labels) :]),
            version=folder.next,
            used=used,
            in_use=folder.next if used else folder.current,
            old_held=len(kept.labels),
            unjudged=[name for name in classes if name not in both.labels],
            correct=both.by_class(right),
            held_out=held_out,
            epochs=classifier.epochs,
            passed_over=_passed_over(rejections, after),
            **told,
        )
        classifier.kept_, classifier.epochs = both.learnt(new.digests, new.labels), usual
        written = {k: str(v) for k, v in (options or {}).items() if isinstance(v, str | int | float)}  # no own objects
        folder.add(classifier, lesson, options=written)
        return lesson


class _Images(NamedTuple):
    """Labelled images, their digests, and their names in messages."""

    images: Tensor
    labels: list[Label]
    digests: Digests
    names: Sequence[str]

    def at(self, indices: list[int]) -> _Images:
        """Those at these indices."""
        labels, names = [self.labels[index] for index in indices], [self.names[index] for index in indices]
        return _Images(self.images[indices], labels, self.digests[indices], names)

    def only(self, mask: Tensor) -> _Images:
        """Those that the mask selects."""
        return self.at(torch.nonzero(mask).flatten().tolist())

    def held_out(self, share: float) -> Tensor:
        """A mask of the images to hold out: this share of each class."""
        number = {name: place for place, name in enumerate(sorted(set(self.labels), key=str))}
        numbers = np.array([number[label] for label in self.labels])
        names = list(map(str, number))
        return torch.from_numpy(splitting.held_out(numbers, self.digests, names, share, seed=0, least=0))


def _what_is_new(classifier: Classifier, given: _Images) -> tuple[_Images, dict[str, Any]]:
    """The images that are to be learnt, and what `Lesson` says of all others, by its fields. Images that were learnt
    before as another class are new and are unlearnt: the newest label counts."""
    x, y, digests, names = given
    if relabelled := classifier.kept_.otherwise(digests, y):
        classifier.unlearn(x[list(relabelled)], digests[list(relabelled)])
    fresh, repeated = classifier.kept_.new_among(digests)
    copies = [(one, other) for one, other in repeated if y[one] == y[other]]
    twice = [(one, other) for one, other in repeated if y[one] != y[other]]
    twice = sorted([*twice, *classifier.kept_.otherwise_too(digests, y)], key=lambda pair: pair[1])

    def named(indices: Iterable[int]) -> tuple[str, ...]:
        return tuple(names[index] for index in indices)

    new = given.at(fresh)
    if emptied := {*relabelled.values()} - {*classifier.kept_.seen_of, *new.labels}:
        emptied -= classifier.memory_contents().keys()  # of lessons in Python
    told = {
        "known": len(x) - len(fresh) - len(repeated),
        "otherwise": dict(Counter(map(str, relabelled.values()))),
        "first_otherwise": "".join(named([*relabelled][:1])),
        "twice": len(twice),
        "first_twice": named(twice[0]) if twice else (),
        "copies": len(copies),
        "first_copy": named(copies[0]) if copies else (),
        "emptied": sorted(emptied, key=str),
    }
    return new, told


def _tolerable(before: float | None, after: float | None, held: int, tolerate: float) -> bool:
    """Whether the accuracy on `held` images of old classes, if it is known, fell by no more than `tolerate` and no more
    than half of what it was (or the share `tolerate` of it, if that is larger), or by what may be chance."""
    if before is None or after is None:
        return True
    return surely_lost(before - after, held) <= min(tolerate, max(tolerate, _HALF) * before) + 1e-9


def surely_lost(share: float, count: int) -> float:
    """How much accuracy is surely lost, if this share of `count` images is: Wilson's one-sided 95 % lower bound."""
    share, doubt = max(0.0, share), _SURE**2 / max(1, count)
    spread = math.sqrt(doubt * share * (1 - share) + doubt**2 / 4)
    return (share + doubt / 2 - spread) / (1 + doubt)


def _rejected_before(
    rejections: Sequence[tuple[Lesson, Kept]], after: Kept, held_out: float, epochs: int | None
) -> Lesson | None:
    """The same lesson, if it was taught before from the version in use and forgot too much. `after` is what the model
    would have seen after it."""
    for lesson, kept in rejections:
        if (lesson.held_out, lesson.epochs) == (held_out, epochs) and kept.saw_the_same(after):
            return lesson
    return None


def _passed_over(rejections: Sequence[tuple[Lesson, Kept]], after: Kept) -> list[tuple[int, list[Label]]]:
    """The rejected versions, with their classes, that had images which neither this lesson nor a later of them has."""
    later, found = [after], []
    for lesson, kept in reversed(rejections):
        if not any(other.saw_all_of(kept) for other in later):
            found.append((lesson.version, [*lesson.new_classes, *lesson.came_again]))
        later.append(kept)
    return found[::-1]


def _load_or_create(folder: ModelFolder, options: dict[str, Any], device: str) -> Classifier:
    """Load the model or the finished run, or create a new model."""
    if not folder.exists() and not folder.is_run():
        folder.check_free()  # before training for nothing
        return Classifier(**options, device=device)
    classifier = folder.load(Classifier, device=device)
    created_with = folder.created_with() if options and folder.exists() else {}
    given = {
        name: value for name, value in options.items() if name != "epochs" and str(value) != created_with.get(name)
    }
    if changed := [f"{name}=" for name, value in given.items() if not _is_of(classifier, name, value)]:
        raise MocaError(
            f"model '{folder.path}' already exists, so {', '.join(changed)} cannot be changed; leave "
            f"{'it' if len(changed) == 1 else 'them'} out, or create another model"
        )
    return classifier


def _is_of(classifier: Classifier, option: str, value: Any) -> bool:
    """Whether a classifier has this value of an option, in whatever spelling."""
    run, name = classifier.settings_, "model" if option == "encoder" else option
    given = getattr(validate(Run, {"learner": run.learner, name: value}), name)
    if name == "image_size":  # it may be that of the first images
        return classifier.shape_[1:] == (given, given)
    if name in ("learner", "perturb"):
        given = with_recipe(given, recipe_places(run.data_name, classifier.protocol_.name, run.memory))
    return bool(given == getattr(run, name))
