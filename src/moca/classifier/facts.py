"""What is known of a model, as `moca model show` and the service tell it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
from moca.classifier.images import Shape
from moca.classifier.record import Lesson
from moca.classifier.summary import what_it_was
from moca.data.arrays import Label


class KnownClass(NamedTuple):
    """A class that the model knows."""

    name: Label
    version: int | None
    """The version that learnt it; None if that one was deleted or cannot be read."""
    in_memory: int
    """Number of its samples in memory."""
    correct: int
    """Number of its held-out images that are classified correctly."""
    held: int
    """Number of its held-out images."""


class PastVersion(NamedTuple):
    """A version of the model, as its about.json records it."""

    version: int
    parent: int | None
    when: str
    classes: int
    """Number of classes that it knows."""
    what: str
    """How it came about."""
    lesson: Lesson
    bytes: int


class Facts(NamedTuple):
    """How a model is made, what it knows, and how it came to know it."""

    learner: str
    perturb: str
    encoder: str
    frozen: str | None
    optimiser: str
    lr: float
    shape: Shape
    vectors: bool
    """Whether it takes vectors instead of images."""
    version: int | None
    """The version that these are the facts of; None for a finished run, which has none."""
    in_use: int | None
    """The version in use; None if that is not known."""
    classes: list[KnownClass]
    versions: list[PastVersion]
    """All versions that can be read, oldest first."""
    damaged: list[str]
    """A line for each of the others."""


def facts_of(folder: ModelFolder, classifier: Classifier) -> Facts:
    """The facts about a model of which one version, or a finished run, was loaded."""
    abouts, damaged = folder.readable()
    versions = [
        PastVersion(
            version=about["version"],
            parent=about["parent"],
            when=about["when"],
            classes=len(about["classes"]),
            what=what_it_was(about),
            lesson=Lesson.of(about),
            bytes=folder.size(about["version"]),
        )
        for about in abouts
    ]
    run, version = classifier.settings_, classifier.version_
    return Facts(
        learner=str(run.learner),
        perturb=str(run.perturb),
        encoder=str(run.model),
        frozen=None if run.frozen is None else str(run.frozen),
        optimiser=str(run.optimiser),
        lr=run.lr,
        shape=classifier.shape_,
        vectors=classifier.takes_vectors,
        version=version,
        in_use=folder.current_if_known(),
        classes=_classes(folder, classifier, next((one.lesson for one in versions if one.version == version), None)),
        versions=versions,
        damaged=damaged,
    )


def _classes(folder: ModelFolder, classifier: Classifier, lesson: Lesson | None) -> list[KnownClass]:
    """The classes of a version. `lesson` is what made it; None if that cannot be read, or there are no versions."""
    came = {} if lesson is None else folder.taught_in(classifier.version_)
    judged = {} if lesson is None else {name: (right, held) for name, right, held in lesson.correct}
    memory = classifier.learning_.memory
    stored = memory.all() if memory is not None else {}
    kept = Counter(stored["y"].tolist()) if stored else Counter[int]()
    return [
        KnownClass(name, came.get(name), kept[number], *judged.get(name, (0, 0)))
        for number, name in enumerate(classifier.classes_.tolist())
    ]
