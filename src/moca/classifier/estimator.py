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
    """A classifier that learns classes of images as they arrive, by replay of a small memory with MOCA.

    `learn` adds to what is known; classes may be new or come again, labels are whole numbers or names. Images are an
    array or tensor of bytes (or floats from 0 to 1), a list of files or pictures, a folder with one for each class, or
    a torch `Dataset`; vectors of any numbers (n, d) can be learnt instead. It is an estimator of scikit-learn's kind.

    Args:
        learner: The method, by name or as an object of your own.
        perturb: The perturbation; by default `gaussian`, where the learner takes one.
        memory: Images kept for replay, or what they may take: `"50MB"`.
        encoder: What learns, by name or as a torch module, whatever weights it begins with; by default chosen by the
            size and number of the first images.
        frozen: An encoder that does not learn: images pass it once, and `encoder` learns on its features.
        epochs: Passes over the images of a lesson; by default as many as give enough steps.
        image_size: Pixels a side that images are brought to.
        augment: Whether images are shifted, and colour ones mirrored, while they are learnt.
        device: `"cpu"`, `"cuda"` or `"auto"`.
        seed: Of initial weights, orders and draws.

    Example:
        >>> digits = moca.load("digits").train
        >>> few = digits.labels < 3
        >>> model = moca.ContinualClassifier(memory=50, epochs=1)
        >>> model.learn(digits.images[few], digits.labels[few]).classes_.tolist()
        [0, 1, 2]
    """

    _unlearnt = NothingLearnt


def load_model(
    path: str | os.PathLike[str],
    *,
    device: str = "auto",
    encoder: Any = None,
    frozen: Any = None,
    learner: Any = None,
    perturb: Any = None,
) -> ContinualClassifier:
    """The classifier in a model folder (`moca learn`, `save`), or of a finished run.

    Args:
        path: The folder.
        device: `"cpu"`, `"cuda"` or `"auto"`.
        encoder: An encoder that was a module of your own, handed in again.
        frozen: The same for a frozen one.
        learner: The same for a learner that no name leads back to.
        perturb: The same for a perturbation.
    """
    return ContinualClassifier.load(
        path, device=device, encoder=encoder, frozen=frozen, learner=learner, perturb=perturb
    )
