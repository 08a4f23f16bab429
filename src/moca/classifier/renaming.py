"""Rename a class of a model, in a new version."""

from __future__ import annotations

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
from moca.classifier.record import Lesson
from moca.data.arrays import Label


def rename(folder: ModelFolder, label: Label, name: Label) -> int:
    """Save a new version in which a class has another name, put it into use, and return its number."""
    with folder.teaching():
        before, number = Lesson.of(folder.about()), folder.next
        classifier = folder.load(Classifier, device="cpu").rename(label, name)
        name = classifier.of_known_kind([name])[0]
        correct = [(name if one == label else one, right, held) for one, right, held in before.correct]
        folder.add(classifier, Lesson(version=number, in_use=number, correct=correct, renamed=[label, name]))
        return number
