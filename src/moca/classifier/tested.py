"""A test of a model on a folder of labelled images: how many it classifies correctly, and what it confuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from moca.classifier.classifier import Classifier
from moca.classifier.held_out import Kept
from moca.classifier.images import digests_of, labelled
from moca.classifier.remarks import not_read_told, unknown_told, unrecorded_told
from moca.classifier.summary import listed
from moca.data.arrays import Label
from moca.data.progress import Watch, silent
from moca.errors import MocaError

if TYPE_CHECKING:
    import os

_AT_ONCE = 256
"""How many images are predicted between two calls of `watch`."""


class Tested(NamedTuple):
    """The result of a test. Images of classes that the model does not know are not part of any count but their own."""

    images: int
    correct: int
    classes: list[tuple[Label, int, int]]
    """For each class in the folder: its images that are classified correctly, and all of them."""
    confused: list[tuple[Label, Label, int]]
    """Classes, what their images are taken for, and how many; the most frequent first."""
    unknown: dict[Label, int]
    """Images of each class that the model does not know."""
    unknown_told: str
    """A note about these; empty if there are none."""
    learnt: int
    """Images that the model has learnt, or was evaluated on, and that therefore test little."""
    left_out: list[str]
    """A line for each image that could not be read."""


def examine(
    classifier: Classifier,
    folder: str | os.PathLike[str],
    say: Callable[[str], None] | None = None,
    watch: Watch = silent,
) -> Tested:
    """Test a classifier on a folder with a subfolder of images for each class. `say` gets a note of what is not
    read."""
    x, labels, _, left_out = labelled(folder, None, classifier.shape_, watch=watch)
    if say and (line := not_read_told(folder)):
        say(line)
    labels, classes = classifier.of_known_kind(labels), classifier.classes_.tolist()
    note, known = unknown_told(labels, classes, "are not counted"), {*classes}
    rows = [row for row, label in enumerate(labels) if label in known]
    if not rows:
        raise MocaError(f"{note}; give images of its classes: {listed(classes)}")
    if say and (line := unrecorded_told(labels, classifier, "test little")):
        say(line)
    x, truth, answers = x[rows], [labels[row] for row in rows], list[Label]()
    for start in range(0, len(rows), _AT_ONCE):
        answers += classifier.predict(x[start : start + _AT_ONCE]).tolist()
        watch("predicting", len(answers), len(rows))
    right = [answer == label for answer, label in zip(answers, truth, strict=True)]
    pairs = zip(truth, answers, strict=True)
    confused = Counter((label, answer) for label, answer in pairs if label != answer)
    new, repeated = classifier.kept_.new_among(digests_of(x))
    return Tested(
        images=len(rows),
        correct=sum(right),
        classes=Kept(labels=truth).by_class(right),
        confused=[(label, answer, count) for (label, answer), count in confused.most_common()],
        unknown=dict(Counter(label for label in labels if label not in known)),
        unknown_told=note,
        learnt=len(rows) - len(new) - len(repeated),
        left_out=[*left_out],
    )
