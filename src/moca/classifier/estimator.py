"""The classifier as an estimator of scikit-learn's. Commands do without, as scikit-learn takes long to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from moca.classifier.classifier import Classifier
from moca.errors import MocaError

if TYPE_CHECKING:
    import os


class NothingLearnt(MocaError, NotFittedError):  # type: ignore[misc]
    """What is asked before the first lesson."""


class ContinualClassifier(Classifier, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns classes of images as they arrive, by replay of a small memory with MOCA.

    `learn` adds to what is known; classes may be new or come again, labels are whole numbers or names. Images are an
    array or tensor of bytes (or floats from 0 to 1), a list of files or pictures, a folder with one for each class, or
    a torch `Dataset`; vectors of any numbers (n, d) can be learnt instead. `encoder` goes on learning, whatever weights
    it begins with; a `frozen` one does not: images pass it once, and `encoder` learns on its features. What is left
    open is chosen by the size and number of the first images.
    """

    _unlearnt = NothingLearnt


def load_model(
    path: str | os.PathLike[str], *, device: str = "auto", encoder: Any = None, frozen: Any = None
) -> ContinualClassifier:
    """The classifier in a model folder, or of a finished run: `moca.load_model("runs/NAME").predict(images)`.

    An encoder that was a module of your own has to be handed in again.
    """
    return ContinualClassifier.load(path, device=device, encoder=encoder, frozen=frozen)
