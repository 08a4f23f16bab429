"""Erase a class from a model, and on request from all of its versions and from what they record."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
from moca.classifier.record import Lesson
from moca.data.arrays import Label
from moca.errors import MocaError

UNNAMED = "a class"
"""What a version forgot, if the class was removed from all versions."""


def forget(folder: ModelFolder, label: Label, *, all_versions: bool = False, device: str = "auto") -> int:
    """Save a new version without a class, put it into use, and return the number of the version in use.

    With `all_versions` the class is removed from all other versions, too, even if the one in use no longer has it.
    """
    with folder.teaching():
        having = [about["version"] for about in folder.versions if label in about["classes"]]
        if having and folder.current not in having and not all_versions:
            several = len(having) > 1
            raise MocaError(
                f"version {folder.current} of model '{folder.path}', which is in use, has no class {label!r}; "
                f"version{'s' * several} {', '.join(map(str, having))} still {'have' if several else 'has'} it; "
                f"--all-versions removes it from {'them' if several else 'there'} too"
            )
        if folder.current in having or not having:
            classifier = folder.load(Classifier, device=device)
            kept, number = classifier.kept_.without(label, _names_before(folder, label)), folder.next
            without = classifier.forget(label)
            without.kept_ = kept
            correct = kept.by_class(kept.judged(without))
            what = UNNAMED if all_versions else label
            folder.add(without, Lesson(version=number, in_use=number, correct=correct, forgot=what))
        if all_versions:
            try:
                _remove_everywhere(folder, label, having, device)
            except MocaError as error:
                raise MocaError(
                    f"{error}; version {folder.current}, which is in use, is without {label!r}; to remove it from the "
                    "others too, repeat the command"
                ) from None
        return folder.current


def former_names(folder: ModelFolder, label: Label) -> list[Label]:
    """Other names that a class has in earlier versions, because it was renamed since. A name that is another class's in
    the version in use is left out: to forget it would forget that class."""
    had = {name for about in folder.versions for name in about["classes"]} - {*folder.about()["classes"]}
    return [name for name in _names_before(folder, label) if name in had]


def _names_before(folder: ModelFolder, label: Label) -> list[Label]:
    """All names that a class had before it was renamed, the last first."""
    names = [label]
    for about in reversed(folder.versions):
        renamed = Lesson.of(about).renamed
        names += renamed[:1] if renamed and renamed[1] == names[-1] else []
    return names[1:]


def _remove_everywhere(folder: ModelFolder, label: Label, having: Container[int], device: str) -> None:
    """Remove a class from the versions that have it, and its name from the records of all. The versions that have it
    come last: as long as there is one, the removal can be repeated."""
    for about in sorted(folder.versions, key=lambda about: about["version"] in having):
        number, lesson = about["version"], without_class(Lesson.of(about), label)
        if number not in having:
            if lesson.record() != about["lesson"]:
                folder.rewrite_lesson(number, lesson)
        elif about["classes"] == [label]:  # its only class
            folder.remove(number)
        else:
            folder.rewrite(number, folder.load(Classifier, number, device=device).forget(label), lesson)


def without_class(lesson: Lesson, label: Label) -> Lesson:
    """A lesson that does not name a class."""

    def others(names: Iterable[Label]) -> list[Label]:
        return [name for name in names if name != label]

    return replace(
        lesson,
        new_classes=others(lesson.new_classes),
        came_again=others(lesson.came_again),
        unjudged=others(lesson.unjudged),
        emptied=others(lesson.emptied),
        correct=[counts for counts in lesson.correct if counts[0] != label],
        otherwise={name: count for name, count in lesson.otherwise.items() if name != str(label)},
        forgot=UNNAMED if lesson.forgot == label else lesson.forgot,
        renamed=[UNNAMED if name == label else name for name in lesson.renamed],
    )
