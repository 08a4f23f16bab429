"""The version of a model that answers, taken up anew whenever another one is put to use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
from moca.data.arrays import Label
from moca.data.source import Pixels
from moca.errors import MocaError
from moca.learners import Learner
from moca.sphere import angle, project


class Neighbour(NamedTuple):
    """A remembered image, and how far in degrees its features are from those of the image asked about."""

    label: Label
    angle: float
    image: Pixels


class Version:
    """One version of a model. Nothing in it changes, so that many threads can ask it at a time."""

    def __init__(self, number: int | None, classifier: Classifier) -> None:
        """`number` is None for a finished run, which has no versions."""
        self.number, self.classifier = number, classifier
        self.names: list[Label] = classifier.classes_.tolist()
        model = classifier.learning_.model.eval()  # for good: a thread that switches it back would disturb others
        learner = classifier.learning_.learner
        one_at_a_time = (
            model.bf16
            or classifier.learning_.device.type != "cpu"  # weights are rounded in place there
            or type(learner).predict is not Learner.predict  # it may switch networks of its own to and fro
        )
        if not one_at_a_time:
            classifier.learning_.turn = nullcontext()
        contents = {} if classifier.keeps_vectors else classifier.memory_contents()  # of features, no image is left
        self.examples = {name: images[0] for name, images in contents.items()}
        """A remembered image of each class that has any."""
        kept = [(name, image) for name, images in contents.items() for image in images]
        self.remembered: list[Label] = [name for name, _ in kept]
        self._images = [image for _, image in kept]
        self._directions = project(self._features(self._images)) if kept else None

    def _features(self, images: Any) -> torch.Tensor:
        return torch.from_numpy(self.classifier.features(images))

    def shares(self, images: Sequence[Pixels]) -> NDArray[np.float32]:
        """How sure it is of each class: a row for each image."""
        return self.classifier.predict_proba(images)

    def nearest(self, images: Sequence[Pixels], count: int) -> list[list[Neighbour]]:
        """The remembered images whose features are at the smallest angle to those of each image, the nearest first."""
        if self._directions is None:
            return [[] for _ in images]
        asked = project(self._features(images))
        best = (asked @ self._directions.T).topk(min(count, len(self._images))).indices
        degrees = angle(asked.unsqueeze(1), self._directions[best]).rad2deg()
        order = degrees.argsort(dim=1, stable=True)
        return [
            [Neighbour(self.remembered[place], far, self._images[place]) for place, far in zip(*row, strict=True)]
            for row in zip(best.gather(1, order).tolist(), degrees.gather(1, order).tolist(), strict=True)
        ]


class InUse:
    """The version in use. A lesson of this service, `moca learn`, `rollback` or `forget` may put another one there."""

    def __init__(self, path: Path, device: str) -> None:
        self.folder, self._device, self._looking = ModelFolder(path), device, Lock()
        self._seen = self.folder.mark
        self.version = self._load()
        self.trouble: str | None = None
        """Why what is on disk could not be taken up; the version before answers then."""

    @property
    def name(self) -> str:
        """What the model's folder is called."""
        return self.folder.path.resolve().name

    def look(self) -> bool:
        """Take up what is in use on disk, if that has changed; whether it was."""
        with self._looking:
            mark = self.folder.mark
            if mark == self._seen:
                return False
            self._seen = mark
            try:
                self.version = self._load()
            except Exception as error:  # whatever it is, the version before goes on answering
                line = str(error) if isinstance(error, MocaError) else f"{type(error).__name__}: {error}"
                self.trouble = f"what is on disk cannot be taken up, version {self.version.number} answers: {line}"
                return False
            self.trouble = None
            return True

    def _load(self) -> Version:
        number = self.folder.current if self.folder.exists() else None
        classifier = self.folder.load(Classifier, number, device=self._device)
        if classifier.takes_vectors:
            raise MocaError(f"'{self.folder.path}' has learnt vectors, and images are what is served; use it in Python")
        return Version(number, classifier)
