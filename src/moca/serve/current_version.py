"""The version of a model that answers requests, reloaded whenever another one is put into use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from moca.classifier.classifier import Classifier
from moca.classifier.folder import ModelFolder
from moca.classifier.summary import what_it_was
from moca.data.arrays import Label
from moca.data.source import Pixels
from moca.errors import MocaError
from moca.learners import Learner
from moca.sphere import angle, project

_AGAIN = 10.0
"""Seconds after which a version that could not be loaded is tried again: its files may be restored, or the memory of a
GPU free."""


class Neighbour(NamedTuple):
    """An image in memory, and the angle in degrees between its features and those of the query image."""

    label: Label
    angle: float
    image: Pixels


class Version:
    """One loaded version of a model. It never changes, so it is thread-safe."""

    def __init__(self, number: int | None, classifier: Classifier) -> None:
        """`number` is None for a finished run, which has no versions."""
        self.number, self.classifier = number, classifier
        self.names: list[Label] = classifier.classes_.tolist()
        model = classifier.learning_.model.eval()  # permanently: switching back and forth would disturb other threads
        learner = classifier.learning_.learner
        one_at_a_time = (
            model.bf16
            or classifier.learning_.device.type != "cpu"  # weights are rounded in place there
            or type(learner).predict is not Learner.predict  # it may switch its own networks' modes
        )
        if not one_at_a_time:
            classifier.learning_.turn = nullcontext()
        contents = {} if classifier.keeps_vectors else classifier.memory_contents()  # features cannot be shown
        self.examples = {name: images[0] for name, images in contents.items()}
        """One image in memory for each class that has any."""
        stored = [(name, image) for name, images in contents.items() for image in images]
        self.remembered: list[Label] = [name for name, _ in stored]
        """The class of each image in memory."""
        self._images = [image for _, image in stored]
        self._directions = project(self._features(self._images)) if stored else None

    def _features(self, images: Any) -> torch.Tensor:
        return torch.from_numpy(self.classifier.features(images))

    def shares(self, images: Sequence[Pixels]) -> NDArray[np.float32]:
        """Class probabilities, one row per image."""
        return self.classifier.predict_proba(images)

    def nearest(self, images: Sequence[Pixels], count: int) -> list[list[Neighbour]]:
        """For each image, the images in memory with the smallest angle between features, nearest first."""
        if self._directions is None:
            return [[] for _ in images]
        queries = project(self._features(images))
        best = (queries @ self._directions.T).topk(min(count, len(self._images))).indices
        degrees = angle(queries.unsqueeze(1), self._directions[best]).rad2deg()
        order = degrees.argsort(dim=1, stable=True)
        return [
            [Neighbour(self.remembered[index], far, self._images[index]) for index, far in zip(*row, strict=True)]
            for row in zip(best.gather(1, order).tolist(), degrees.gather(1, order).tolist(), strict=True)
        ]


class InUse:
    """The version in use, which a lesson of this service, `moca learn`, `rollback` or `forget` may replace; or always
    the same one, if a version is given. `log` is called with a line whenever that happens, or fails."""

    def __init__(self, path: Path, device: str, version: int | None = None, log: Callable[[str], object] = str) -> None:
        self.folder, self._device, self._reloading = ModelFolder(path), device, Lock()
        self._always, self._log = version, log
        self._mark = self.folder.mark
        self.version = self._load()
        self.trouble: str | None = None
        """Why the version in use on disk could not be loaded; the one before it then still answers."""
        self._failed = 0.0
        """When that was tried last."""

    @property
    def name(self) -> str:
        """The name of the model's folder."""
        return self.folder.path.resolve().name

    def look(self) -> None:
        """Load the version in use on disk if it has changed, or could not be loaded some time ago."""
        with self._reloading:
            mark = self.folder.mark
            again = self.trouble is not None and time.monotonic() >= self._failed + _AGAIN
            if self._always is not None or (mark == self._mark and not again):
                return
            self._mark, before = mark, self.version.number
            try:
                self.version = self._load()
            except Exception as error:  # whatever it is, the version before still answers
                line = str(error) if isinstance(error, MocaError) else f"{type(error).__name__}: {error}"
                told = f"the version in use on disk cannot be loaded, version {before} still answers: {line}"
                if told != self.trouble:
                    self._log(told)
                self.trouble, self._failed = told, time.monotonic()
                return
            self.trouble = None
            self._log(f"version {self.version.number} answers, after version {before}{self._what()}")

    def _what(self) -> str:
        """How the version came about, as the end of a line; empty if that cannot be read."""
        try:
            return f": {what_it_was(self.folder.about(self.version.number))}"
        except MocaError:
            return ""

    def _load(self) -> Version:
        number = self._always
        if number is None and self.folder.exists():
            number = self.folder.current
        classifier = self.folder.load(Classifier, number, device=self._device)
        if classifier.takes_vectors:
            raise MocaError(
                f"'{self.folder.path}' has learnt vectors, and only models of images can be served; use it in Python"
            )
        return Version(number, classifier)
