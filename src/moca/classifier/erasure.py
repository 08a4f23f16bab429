"""Erase a class from a model, and on request from all of its versions and from what they record."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from typing import Any

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
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
            without = folder.load(Classifier, device=device).forget(label)
            kept = without.kept_
            what = UNNAMED if all_versions else label
            folder.add(without, {"forgot": what, "correct": kept.by_class(kept.judged(without))})
        if all_versions:
            try:
                _remove_everywhere(folder, label, having, device)
            except MocaError as error:
                raise MocaError(
                    f"{error}; version {folder.current}, which is in use, is without {label!r}; to remove it from the "
                    "others too, repeat the command"
                ) from None
        return folder.current


def _remove_everywhere(folder: ModelFolder, label: Label, having: Container[int], device: str) -> None:
    """Remove a class from the versions that have it, and its name from the records of all. The versions that have it
    come last: as long as there is one, the removal can be repeated."""
    for about in sorted(folder.versions, key=lambda about: about["version"] in having):
        number, lesson = about["version"], without_class(about["lesson"], label)
        if number not in having:
            if lesson != about["lesson"]:
                folder.rewrite_lesson(number, lesson)
        elif about["classes"] == [label]:  # its only class
            folder.remove(number)
        else:
            folder.rewrite(number, folder.load(Classifier, number, device=device).forget(label), lesson)


def without_class(lesson: dict[str, Any], label: Label) -> dict[str, Any]:
    """A lesson as recorded in about.json, without a class and without texts that name it or files of it."""
    name = re.compile(rf"(?<!\w){re.escape(unicodedata.normalize('NFC', str(label)))}(?!\w)")
    left = dict(lesson)
    for key in ("new_classes", "came_again", "unjudged", "emptied"):
        left |= {key: [one for one in lesson[key] if one != label]} if key in lesson else {}
    if "correct" in lesson:
        left["correct"] = [counts for counts in lesson["correct"] if counts[0] != label]
    if "otherwise" in lesson:
        left["otherwise"] = {one: count for one, count in lesson["otherwise"].items() if one != str(label)}
        left["first_otherwise"] = lesson.get("first_otherwise", "") if left["otherwise"] else ""
    if lesson.get("forgot") == label:
        left["forgot"] = UNNAMED
    only = not left.get("new_classes") and not left.get("came_again")  # then all of its files are of this class
    for key, empty in (("left_out", []), ("first_otherwise", ""), ("first_twice", []), ("first_copy", [])):
        texts = [left[key]] if isinstance(left.get(key), str) else left.get(key) or []
        if left.get(key) and (only or any(name.search(unicodedata.normalize("NFC", text)) for text in texts)):
            left[key] = empty
    return left
