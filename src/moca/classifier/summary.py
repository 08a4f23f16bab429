"""A lesson described in words, the same on the command line, in the HTTP service and on its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moca.classifier.images import first_of
from moca.classifier.record import Lesson
from moca.data.arrays import Label
from moca.wording import counted

_FEW = 10
"""Accuracies on fewer images than this get a warning, because they are little more than chance."""
_COSTLY = 0.1, 0.5
"""Loss of accuracy on old classes above which a message is shown: in itself, and as a share of what it was."""
_NAMED = 5
"""Maximum number of classes that a list names."""


def learnt_from(lesson: Lesson) -> str:
    """What was learnt: "90 images of 2 new classes (ring, square) and 1 known class (bar)"."""
    kinds = (lesson.new_classes, "new class"), (lesson.came_again, "known class")
    classes = [f"{counted(len(names), kind, kind + 'es')} ({listed(names)})" for names, kind in kinds if names]
    return f"{counted(lesson.images, 'image')} of {' and '.join(classes)}"


def what_it_was(about: dict[str, Any]) -> str:
    """How a version came about: "+ ring, square", "more of triangle", "forgot hexagon", "renamed bar to rod"; its
    parent, if that is not the version before it; and whether it forgot too much. Classes that were since removed from
    all versions are not named."""
    lesson, has, parent = Lesson.of(about), about["classes"], about["parent"]
    news = [name for name in lesson.new_classes if name in has]
    more = [name for name in lesson.came_again if name in has]
    notes = [f"forgot {lesson.forgot}"] if lesson.forgot is not None else []
    notes += ["renamed {} to {}".format(*lesson.renamed)] if lesson.renamed else []
    notes += [f"+ {listed(news)}"] * bool(news) + [f"more of {listed(more)}"] * bool(more)
    fixed = sum(lesson.otherwise.values())
    notes += [counted(fixed, "label corrected", "labels corrected")] * bool(fixed)
    notes += ["a class since forgotten"] * bool(lesson.images and not news and not more)
    notes += [f"from version {parent}"] * (parent is not None and parent != about["version"] - 1)
    notes += ["forgot too much"] * (not lesson.used)
    return "; ".join(notes)


def listed(names: Sequence[Label]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(map(str, names[:_NAMED]))
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _quoted(names: Sequence[Label]) -> str:
    return listed([f"'{name}'" for name in names])


def left_out_told(lines: Sequence[str]) -> str:
    """A sentence that names the first images that could not be read; empty if there are none."""
    return f"{counted(len(lines), 'image')} left out: {first_of(lines)}" if lines else ""


def otherwise_told(lesson: Lesson) -> str:
    """A sentence about images that were taught before as another class; empty if there are none."""
    if not lesson.otherwise:
        return ""
    count = sum(lesson.otherwise.values())
    were = counted(count, "image was", "images were")
    classes = listed([f"{number} as '{name}'" for name, number in lesson.otherwise.items()])
    return f"{were} learnt before as another class, now corrected: {classes} (the first: {lesson.first_otherwise})."


def forgotten_told(lesson: Lesson) -> str:
    """A sentence about images that were forgotten with their class; empty if there are none."""
    were = counted(lesson.forgotten, "image was", "images were")
    return (
        f"{were} forgotten with their class and skipped; --relearn teaches them after all." if lesson.forgotten else ""
    )


def emptied_told(lesson: Lesson, how: Callable[[Label], str]) -> str:
    """A sentence about classes that have no images left, if the version is in use; `how` says how to remove a class."""
    if not lesson.emptied or not lesson.used:
        return ""
    which = "the class" if len(lesson.emptied) == 1 else "the first"
    return f"No images of {_quoted(lesson.emptied)} are left; to remove {which}: {how(lesson.emptied[0])}"


def twice_told(lesson: Lesson) -> str:
    """A sentence about images that are in two classes, saying which of them counts; empty if there are none."""
    if not lesson.twice:
        return ""
    (first, other), more = lesson.first_twice, f" (and {lesson.twice - 1} more)" if lesson.twice > 1 else ""
    there = counted(lesson.twice, "image is", "images are")
    return f"{there} in two classes and counts in one: {first}, not {other}{more}."


def copies_told(lesson: Lesson) -> str:
    """A sentence about duplicate images, naming the first; empty if there are none."""
    if not lesson.copies:
        return ""
    are = "image is a copy of another and does not count", "images are copies of others and do not count"
    first, other = lesson.first_copy
    return f"{counted(lesson.copies, *are)} (the first: {other} is {first})."


def cost_told(lesson: Lesson, back: str) -> str:
    """A warning if a version in use lost much accuracy on old classes, else empty; `back` says how to undo it."""
    if lesson.old_before is None or lesson.old_after is None or not lesson.used:
        return ""
    lost, (points, share) = lesson.old_before - lesson.old_after, _COSTLY
    costly = lost > min(points, share * lesson.old_before)
    return f"The old classes lost {100 * lost:.0f} points; to go back: {back}" if costly else ""


def passed_over_told(lesson: Lesson, how: Callable[[int], str]) -> str:
    """A sentence about versions that forgot too much and are no part of this one; `how` says how to use one."""
    if not lesson.passed_over:
        return ""
    versions = ", ".join(f"{number} ({listed(classes)})" for number, classes in lesson.passed_over)
    told = f"Version {versions} was not put to use and is not part of this one; teach its images again, or use it"
    if len(lesson.passed_over) > 1:
        told = f"Versions {versions} were not put to use and are not part of this one; teach their images again, or use"
        told += " the last"
    return f"{told} instead: {how(lesson.passed_over[-1][0])}"


def basis_told(lesson: Lesson) -> str:
    """Warnings about accuracies that rest on few or no held-out images, and about classes that were missed."""
    if not lesson.images:
        return ""
    warnings = []
    if not lesson.held and lesson.held_out:
        one_each = lesson.images == len(lesson.new_classes) + len(lesson.came_again)
        remedy = (
            "two or more images of a class are needed" if one_each else "a larger share (--held-out) may hold some out"
        )
        few = "There were too few images to hold any out, so how well this lesson was learnt is not known"
        warnings.append(f"{few}; {remedy}.")
    counts = [f"{number} of {whose}"
              for number, whose in ((lesson.old_held, "the old classes"), (lesson.held, "this lesson"))
              if 0 < number < _FEW]  # fmt: skip
    if counts:
        warnings.append(f"The accuracies rest on few held-out images: {' and '.join(counts)}.")
    if lesson.held and lesson.unjudged:
        whose = "its" if len(lesson.unjudged) == 1 else "their"
        warnings.append(f"No image of {_quoted(lesson.unjudged)} is held out, so {whose} accuracy is not known.")
    if lesson.missed:
        warnings.append(f"No held-out image of {_quoted(lesson.missed)} is classified correctly.")
    if lesson.old_after is None and lesson.version > 1:
        warnings.append("No images of classes known before are held out, so whether any were forgotten is not known.")
    return " ".join(warnings)
