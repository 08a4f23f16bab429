"""A lesson as it is told once it has ended, and as its version records it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from moca.data.arrays import Label

_SAID_ONCE = {"left_out", "first_otherwise", "first_twice", "first_copy", "passed_over"}
"""Fields that are told after the lesson and not recorded. They name files (a class may have to be erased some day, and
which texts tell of it could only be guessed), or other versions, which may be deleted."""


@dataclass(frozen=True)
class Lesson:
    """The result of a lesson, or of any other change that made a version: one saved from Python, or a class that was
    forgotten or renamed. Accuracies are shares of held-out images; None if there are none."""

    images: int = 0
    """Images trained on."""
    known: int = 0
    """Images skipped because they were learnt before."""
    held: int = 0
    """Images of this lesson that were held out."""
    new_classes: list[Label] = field(default_factory=list)
    came_again: list[Label] = field(default_factory=list)
    """Classes of this lesson that were known before."""
    left_out: list[str] = field(default_factory=list)
    """A line for each image that could not be read: which, and why."""
    old_before: float | None = None
    """Accuracy on the images held out by earlier lessons, before this lesson."""
    old_after: float | None = None
    """The same after this lesson."""
    old_apart: float | None = None
    """The same with the scores of old classes only. Far above `old_after`, it says that old classes are confused with
    new ones; as low, that they are forgotten."""
    new_after: float | None = None
    """Accuracy on the images held out by this lesson."""
    version: int = 0
    used: bool = True
    """Whether the new version is in use."""
    in_use: int = 0
    """The version in use after the lesson: `version`, or the one that stayed if the lesson forgot too much."""
    otherwise: dict[str, int] = field(default_factory=dict)
    """Images that were learnt before as another class and are now corrected, counted by that class."""
    first_otherwise: str = ""
    """The first of these: its file, or its number."""
    old_held: int = 0
    """Number of images behind `old_before` and `old_after`."""
    unjudged: list[Label] = field(default_factory=list)
    """Classes of this lesson without a held-out image, whose accuracy is therefore unknown."""
    correct: list[tuple[Label, int, int]] = field(default_factory=list)
    """For each class, old or new: held-out images classified correctly after the lesson, and all held-out images."""
    held_out: float = 0.0
    """The requested share of held-out images."""
    epochs: int | None = None
    """The requested number of epochs; None if it was chosen by the number of images."""
    twice: int = 0
    """Images skipped because the same image is in this lesson as another class too: the one it was learnt as before, or
    else the one that comes first."""
    first_twice: tuple[str, ...] = ()
    """The first of these: the image that counts, and the one that was skipped."""
    copies: int = 0
    """Images skipped because the same image comes earlier in this lesson as the same class."""
    first_copy: tuple[str, ...] = ()
    """The first of these: the image that counts, and its copy."""
    emptied: list[Label] = field(default_factory=list)
    """Classes that have no images left, because all were corrected to another class."""
    taught_before: bool = False
    """Whether the same lesson had been taught before and had forgotten too much; it is then not taught again."""
    passed_over: list[tuple[int, list[Label]]] = field(default_factory=list)
    """Versions that forgot too much, so that this lesson went on without them, and the classes that each was taught."""
    forgotten: int = 0
    """Images skipped because they were forgotten on request, with their class."""
    forgot: Label | None = None
    """The class that was forgotten on request."""
    renamed: list[Label] = field(default_factory=list)
    """The old and the new name of the class that was renamed on request."""

    @property
    def missed(self) -> list[Label]:
        """Classes, old or new, with no held-out image classified correctly after the lesson."""
        return [name for name, right, _ in self.correct if not right]

    @property
    def each_alike(self) -> float | None:
        """Mean of the per-class accuracies after the lesson."""
        return share_of([right / held for _, right, held in self.correct])

    def record(self) -> dict[str, Any]:
        """What a version records: all but the texts that name files."""
        return {name: value for name, value in asdict(self).items() if name not in _SAID_ONCE}

    @classmethod
    def of(cls, about: dict[str, Any]) -> Lesson:
        """The lesson that a version's about.json records; an earlier moca may have left out fields, or kept texts."""
        known = {one.name for one in fields(cls)} - _SAID_ONCE
        first = {"new_classes": about["classes"]} if about["parent"] is None else {}
        return cls(**{name: value for name, value in (first | about["lesson"]).items() if name in known})


def share_of(right: Sequence[float]) -> float | None:
    """The mean of `right`, as an accuracy; None if it is empty."""
    return sum(right) / len(right) if right else None
