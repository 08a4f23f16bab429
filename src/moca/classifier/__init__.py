"""A model that keeps learning: new classes arrive over months, and it predicts in between."""

from typing import TYPE_CHECKING, Any

from moca.classifier.folder import ModelFolder

if TYPE_CHECKING:
    from moca.classifier.estimator import ContinualClassifier, load_model

__all__ = ["ContinualClassifier", "ModelFolder", "load_model"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'moca.classifier' has no attribute '{name}'")
    from moca.classifier import estimator  # imported late: the commands do not need scikit-learn

    return getattr(estimator, name)
