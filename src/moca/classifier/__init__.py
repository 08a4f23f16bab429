"""A model that keeps learning: classes arrive over months, and it is used in between."""

from moca.classifier.classifier import ContinualClassifier, load_model
from moca.classifier.folder import ModelFolder

__all__ = ["ContinualClassifier", "ModelFolder", "load_model"]
