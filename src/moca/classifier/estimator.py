"""The classifier as a scikit-learn estimator. The commands do not import it, because scikit-learn is slow to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from moca.classifier.classifier import Classifier
from moca.errors import MocaError

if TYPE_CHECKING:
    import os


class NothingLearnt(MocaError, NotFittedError):  # type: ignore[misc]
    """Raised by methods that need a trained classifier before the first lesson."""


class ContinualClassifier(Classifier, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator that learns image classes as they arrive, by replaying a small memory with MOCA.

    `learn` adds to what is known: classes may be new or known, labels are whole numbers or names. Images are an array
    or tensor of bytes (or floats from 0 to 1), a list of files or PIL images, a folder with a subfolder per class, or a
    torch `Dataset`. Vectors of any numbers (n, d) can be learnt instead of images.

    Args:
        learner: The method, by name or as your own object.
        perturb: The perturbation; by default `gaussian`, if the learner takes one.
        memory: Number of images kept for replay, or the space for them: `"50MB"`.
        encoder: The encoder to train, by name or as a torch module with any initial weights; by default chosen from
            the size and number of the first images.
        frozen: An encoder that is not trained: it turns each image into features once, on which `encoder` trains.
        epochs: Epochs of a lesson; by default enough for a minimum number of steps.
        optimiser: `"sgd"`, `"adam"` or `"adamw"`, with options as in `"adamw:weight_decay=0.05"`; by default `sgd`.
        lr: The learning rate; by default one for training from scratch. A pretrained encoder needs a smaller one.
        image_size: Side in pixels to which images are resized.
        augment: Whether training images are shifted at random, and colour images mirrored.
        device: `"cpu"`, `"cuda"` or `"auto"`.
        seed: Seed of initial weights, data order and random draws.

    Example:
        >>> digits = moca.load("digits").train
        >>> few = digits.labels < 3
        >>> model = moca.ContinualClassifier(memory=50, epochs=1)
        >>> model.learn(digits.images[few], digits.labels[few]).classes_.tolist()
        [0, 1, 2]
    """

    _not_fitted = NothingLearnt


def load_model(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    device: str = "auto",
    encoder: Any = None,
    frozen: Any = None,
    learner: Any = None,
    perturb: Any = None,
) -> ContinualClassifier:
    """Load the classifier from a model folder (`moca learn`, `save`), or from a finished run.

    Args:
        path: The folder.
        version: The version to load; by default the one in use.
        device: `"cpu"`, `"cuda"` or `"auto"`.
        encoder: The encoder, if it was your own torch module.
        frozen: The frozen encoder, if it was your own torch module.
        learner: The learner, if it was your own object that cannot be found by name.
        perturb: The perturbation, likewise.
    """
    return ContinualClassifier.load(
        path, version=version, device=device, encoder=encoder, frozen=frozen, learner=learner, perturb=perturb
    )
