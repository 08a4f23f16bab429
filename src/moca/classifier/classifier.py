"""An image classifier that learns new classes without forgetting old ones. `estimator` wraps it for scikit-learn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moca.classifier.forgetting import without, without_samples
from moca.classifier.held_out import Kept
from moca.classifier.images import (
    BadInput,
    Shape,
    are_vectors,
    class_name,
    digests_of,
    labelled,
    left_out,
    pictures,
    vectors,
)
from moca.classifier.remarks import not_read_told, unknown_told
from moca.data.arrays import Label
from moca.data.fingerprint import Digests, keys
from moca.data.in_memory import Dataset, Split, channel_statistics
from moca.data.progress import Watch, silent
from moca.data.protocol import Protocol, own_protocol, vector_protocol
from moca.data.source import Pixels
from moca.defaults import complete, own_recipe
from moca.engine.device import pick_device
from moca.engine.evaluate import in_evaluation
from moca.engine.folder import described
from moca.engine.held_out import holding_out
from moca.engine.learning import Learning
from moca.engine.schedule import batches_of
from moca.engine.trainer import Trainer
from moca.errors import MocaError, MocaWarning, nearest
from moca.memory import Balanced, Even, Reservoir, Uniform
from moca.models.frozen import Frozen
from moca.models.model import Model
from moca.settings import Run, validate
from moca.settings.suggestions import refusing_unknown_keywords
from moca.streams import Stream, Task

if TYPE_CHECKING:
    import os

_EVENLY = {Reservoir: Balanced, Uniform: Even}
"""In lessons, where classes may be of very different sizes, they have even shares of the memory and equal parts in what
is replayed."""
_LOOK = 50
"""Steps between two checks of the loss; each check synchronises with the GPU."""
_MIN_STEPS = 150
"""Minimum number of steps of a lesson, because few images make few steps per epoch. In one run, 22 images of a new sign
made 50 steps in the recipe's 50 epochs: 6 % of its other images and 85 % of the old signs were then classified
correctly, and 94 % and 100 % after 150 steps."""


_OPTIONS = ("learner", "perturb", "memory", "encoder", "frozen", "optimiser", "lr", "image_size", "augment", "device",
            "seed")  # fmt: skip
"""Options that only the first lesson uses: all but `epochs`."""
_DATA = "own"
"""The data set in the settings of a model that did not begin as a run."""
_ROUNDING = 1e-4
"""Relative distance up to which two feature vectors count as the same image: features vary a little with the batch and
the device."""


class Classifier:
    """Learns image classes as they arrive, by replaying a small memory with MOCA.

    It has the methods of a scikit-learn estimator but does not import scikit-learn, which is slow to load.
    """

    learning_: Learning
    """Model, learner, memory and optimiser; set by the first lesson."""
    settings_: Run
    protocol_: Protocol
    """How samples are preprocessed for the model."""
    shape_: Shape
    """Shape of the input images; (d, 1, 1) for vectors."""
    frozen_: Frozen | None
    """The frozen encoder that turns images into features once, if one was chosen."""
    epochs_: int
    """Epochs of the last lesson, even if it failed."""
    kept_: Kept = Kept()
    """Digests of all images taught so far, and held-out images, which only lessons from folders have."""
    continues_: tuple[Path, int, str] | None = None
    """The folder and version that it was loaded from or last saved as, and when that was written."""
    version_: int | None = None
    """Which version of a model this is; None if it has changed since it was loaded or saved."""
    _names: list[Label]
    _options: dict[str, Any]
    """The options as they were at the first lesson, or when it was loaded."""
    _not_fitted: type[MocaError] = MocaError
    """Error to raise when a method needs a trained classifier and there has been no lesson yet."""

    @refusing_unknown_keywords
    def __init__(
        self,
        learner: Any = "er_ace",
        perturb: Any = None,
        memory: Any = 2000,
        encoder: Any = None,
        *,
        frozen: Any = None,
        epochs: int | None = None,
        optimiser: Any = None,
        lr: float | None = None,
        image_size: int | None = None,
        augment: bool = True,
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self.learner, self.perturb, self.memory, self.encoder = learner, perturb, memory, encoder
        self.frozen, self.epochs, self.optimiser, self.lr = frozen, epochs, optimiser, lr
        self.image_size, self.augment = image_size, augment
        self.device, self.seed = device, seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from scratch. All earlier classes are forgotten, even if the lesson fails."""
        self._names, self.kept_, self.continues_, self.version_ = [], Kept(), None, None
        return self.learn(X, y)

    def partial_fit(self, X: Any, y: Any = None, classes: Iterable[Label] | None = None) -> Self:
        """`learn` under scikit-learn's name; `classes` is ignored."""
        return self.learn(X, y)

    def learn(self, images: Any, labels: Any = None, *, watch: Watch = silent) -> Self:
        """Learn from labelled images while keeping the classes already known.

        Images that lessons are evaluated on are left out, with a warning; `moca learn` will skip the others. A lesson
        that does not finish (Ctrl-C, or a loss that is not finite) leaves the classifier unchanged.
        `watch(stage, done, total)` is called while images are read, encoded by a frozen encoder, and learnt.
        """
        known = self.__sklearn_is_fitted__()
        if known:
            self._refuse_changed_options()
            self.refuse_pictures(images)
        x, y, files, unreadable = labelled(images, labels, self.shape_ if known else None, self.image_size, watch)
        _warn_of_unreadable(unreadable, len(files))
        if labels is None and files and (line := not_read_told(images)):
            warnings.warn(MocaWarning(line), stacklevel=2)
        y, digests = self.of_known_kind(y), digests_of(x)
        x = self._to_samples(x, watch) if known else self._start(x, y, watch)
        if self.kept_.labels and self.kept_.images is not None and (held := self._among(x, self.kept_.images)).any():
            line = f"{int(held.sum())} of {len(y)} images are left out: lessons are evaluated on them"
            warnings.warn(MocaWarning(line), stacklevel=2)
            stay = [index for index, is_held in enumerate(held.tolist()) if not is_held]
            x, y, digests = x[stay], [y[index] for index in stay], digests[stay]
            if not y:
                return self
        names = [*self._names, *sorted(set(y) - set(self._names), key=_sortable)]
        self._warn_of_small_memory(len(names))
        task = self._stream(x, y, names)
        task = holding_out(task, self.learning_.learner, self.settings_.seed.of("data"))
        self.epochs_ = self._epochs(task.dataset) if self.epochs is None else self.epochs
        settings = validate(Run, dict(self.settings_) | {"epochs": self.epochs_})
        before = self.learning_.state_dict() if known else None
        try:
            _train(Trainer(settings, task, learning=self.learning_), watch)
        except BaseException:
            if before is not None:
                self.learning_ = self._fresh_learning(len(self._names))
                self.learning_.load_state_dict(before)
            raise
        self._names, self.kept_, self.version_ = names, self.kept_.relearnt(digests, y), None
        return self

    def _refuse_changed_options(self) -> None:
        """Raise if an option that only the first lesson uses was changed since."""
        before = vars(self).get("_options", {})
        if changed := [f"{name}=" for name, value in before.items() if getattr(self, name) != value]:
            raise MocaError(f"{', '.join(changed)} cannot be changed after the first lesson; set it back, or use fit")

    def _warn_of_small_memory(self, classes: int) -> None:
        """Warn if there are more classes than places in memory, before a lesson."""
        memory = self.learning_.memory
        if memory is not None and memory.size < classes:
            places = f"the memory has {memory.size} places for {classes} classes, so some classes are not replayed"
            warnings.warn(MocaWarning(f"{places}; begin a model with a larger memory"), stacklevel=3)

    def of_known_kind(self, labels: Sequence[Label]) -> list[Label]:
        """Labels of the same type and spelling as the known classes. Numbers may come as strings, because the names of
        folders and of a run's classes are."""
        taught = self.__sklearn_is_fitted__()
        names = [name for name in self._names if isinstance(name, str)] if taught else []
        spelling = {class_name(name): name for name in names} | {name: name for name in names}
        labels = [spelling.get(label, spelling.get(class_name(label), label)) if isinstance(label, str) else label
                  for label in labels]  # fmt: skip
        first = self._names[0] if taught else labels[0]
        others = [label for label in labels if isinstance(label, str) != isinstance(first, str)]
        if not others:
            return list(labels)
        if taught and isinstance(first, int):
            with suppress(ValueError):
                return [int(label) for label in labels]
        if names and all(name.isdecimal() for name in names):
            return list(map(str, labels))
        raise BadInput(f"labels are of one kind, numbers or names; {first!r} is a class, so {others[0]!r} cannot be")

    def _start(self, x: Tensor, y: Sequence[Label], watch: Watch = silent) -> Tensor:
        """Choose the open settings from the first images and build the model; return the samples it trains on."""
        if len(set(y)) < 2:
            raise BadInput(f"the first images are all of one class ({y[0]!r}); begin with at least two")
        data = _dataset(x, y, sorted(set(y), key=_sortable), _first_protocol(x, self.image_size))
        given = {"learner": self.learner, "perturb": self.perturb, "memory": self.memory, "model": self.encoder,
                 "frozen": self.frozen, "device": self.device, "seed": self.seed, "data": _DATA, "classes": "unknown",
                 "offer": "once", "epochs": self.epochs, "optimiser": self.optimiser, "lr": self.lr,
                 "augment": self.augment}  # fmt: skip
        given = {k: v for k, v in given.items() if v is not None}
        run = validate(Run, given)
        learner = run.learner.make()
        if learner.sees_all_tasks:
            raise MocaError(f"'{run.learner.name}' needs all classes at once; choose another learner")
        if self.perturb is None and not learner.refuses:
            run = validate(Run, given | {"perturb": "gaussian"})
        frozen = None
        if run.frozen is not None:
            if data.vectors:
                raise BadInput("a frozen encoder makes vectors of images; begin with images, or leave out frozen")
            frozen = Frozen(run.frozen, data.shape, data.protocol, pick_device(run.device))
            data = frozen.dataset(data, watch)
        self._build(complete(run, data), data.protocol, data.shape, len(set(y)), frozen)
        self._names = []
        return data.train.images

    def _build(
        self, settings: Run, protocol: Protocol, shape: Shape, classes: int, frozen: Frozen | None = None
    ) -> None:
        self._options = {name: getattr(self, name) for name in _OPTIONS}
        self.protocol_, self.frozen_, self.shape_ = protocol, frozen, frozen.shape if frozen else shape
        self.learning_ = Learning(settings, protocol, shape, classes, instead=_EVENLY)
        self.settings_ = self.learning_.settings
        if frozen is not None:
            self.settings_ = self.settings_.model_copy(update={"frozen": frozen.choice})

    def _fresh_learning(self, classes: int, times: int = 1) -> Learning:
        """Untrained `Learning` with the same settings, but `times` the memory size."""
        memory = self.settings_.memory.model_copy(update={"size": times * self.settings_.memory.size})
        settings = self.settings_.model_copy(update={"memory": memory})
        return Learning(settings, self.protocol_, self.sample_shape, classes, instead=_EVENLY)

    @property
    def sample_shape(self) -> Shape:
        """Shape of the samples that the model trains on: images, or the features of a frozen encoder."""
        return self.shape_ if self.frozen_ is None else (self.frozen_.features, 1, 1)

    def _samples(self, images: Any) -> Tensor:
        """Images or vectors in any accepted form, as the model trains on them."""
        self.refuse_pictures(images)
        return self._to_samples(vectors(images) if are_vectors(images) else pictures(images, self.shape_))

    def _to_samples(self, x: Tensor, watch: Watch = silent) -> Tensor:
        """The same for a tensor. With a frozen encoder, vectors are taken to be its features already."""
        if self.frozen_ is not None and not x.is_floating_point():
            return self.frozen_(x, watch)
        learnt, vectors = self.sample_shape, self.protocol_.vectors
        if x.is_floating_point() != vectors or tuple(x.shape[1:]) != learnt:
            if vectors and x.is_floating_point():  # scikit-learn's own wording
                name, given, known = type(self).__name__, x.shape[1], learnt[0]
                raise BadInput(f"X has {given} features, but {name} is expecting {known} features as input")
            raise BadInput("this classifier has learnt images, and these are vectors; give images")
        return x

    def refuse_pictures(self, images: Any) -> None:
        """Raise if the classifier was trained on vectors and this is anything else."""
        if self.takes_vectors and not are_vectors(images):
            raise BadInput(f"this classifier has learnt vectors; give a table with {self.shape_[0]} numbers in a row")

    def prepared(self, images: Any) -> Tensor:
        """Images as a lesson stores them: bytes, or the features of a frozen encoder as vectors (n, d). All methods
        accept these in place of images."""
        self._check_learnt()
        x = self._samples(images)
        return x.flatten(1) if x.is_floating_point() else x

    def _stream(self, x: Tensor, y: Sequence[Label], names: Sequence[Label]) -> Stream:
        """The images of this lesson as a stream of one task."""
        data = _dataset(x, y, names, self.protocol_)
        task = Task(tuple(sorted(set(data.train.labels.tolist()))), torch.arange(len(x)), torch.arange(0))
        return Stream(data, [task], data.train, data.test, data.classes)

    def _epochs(self, lesson: Dataset) -> int:
        """Epochs of the recipe, or more if they would make fewer than `_MIN_STEPS` steps."""
        recipe = own_recipe(lesson, pick_device(self.device).type)
        return max(int(recipe["epochs"]), math.ceil(_MIN_STEPS / batches_of(len(lesson.train), self.settings_.batch)))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of arrival; those of one lesson are sorted."""
        self._check_learnt()
        return np.array(self._names)

    @property
    def n_features_in_(self) -> int:
        """Length of a vector, if the classifier was trained on vectors."""
        if not self.__sklearn_is_fitted__() or not self.takes_vectors:
            raise AttributeError("only classifiers that have learnt vectors have n_features_in_")
        return self.shape_[0]

    def _check_learnt(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise self._not_fitted("this classifier has learnt nothing yet; give it images with learn")

    def __sklearn_is_fitted__(self) -> bool:
        return bool(vars(self).get("_names"))  # empty after a failed first lesson

    def decision_function(self, images: Any) -> NDArray[np.float32]:
        """Scores (n, classes); the highest is the prediction."""
        self._check_learnt()
        return self._scores(self._samples(images))

    def features(self, images: Any) -> NDArray[np.float32]:
        """Features of each image, one row per image, from the encoder that predicts. Compare them by angle."""
        self._check_learnt()
        samples, learning = self._samples(images), self.learning_
        with learning.turn:
            model = learning.learner.tested_model()
        return self._forward(model.encode, samples, model)

    def _scores(self, x: Tensor) -> NDArray[np.float32]:
        return self._forward(self.learning_.predict, x, self.learning_.model)[:, : len(self._names)]

    def _forward(self, network: Callable[[Tensor], Tensor], x: Tensor, model: Model) -> NDArray[np.float32]:
        with self.learning_.turn, self.learning_.numerics():
            rows = in_evaluation(model, network, x, torch.arange(len(x)), self.protocol_)
        return rows.float().cpu().numpy()

    def predict_proba(self, images: Any) -> NDArray[np.float32]:
        """Softmax of the scores, with one column for each of `classes_`."""
        return torch.from_numpy(self.decision_function(images)).softmax(1).numpy()

    def predict(self, images: Any) -> NDArray[Any]:
        """The class of each image."""
        return np.asarray(self.classes_[self.decision_function(images).argmax(1)])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of images that are classified correctly. Images of unknown classes are not, with a warning."""
        self._check_learnt()
        self.refuse_pictures(X)
        x, labels, files, unreadable = labelled(X, y, self.shape_)
        _warn_of_unreadable(unreadable, len(files))
        labels = self.of_known_kind(labels)
        if line := unknown_told(labels, self._names, "count as wrong"):
            warnings.warn(MocaWarning(line), stacklevel=2)
        answers = self.classes_[self._scores(self._to_samples(x)).argmax(1)]
        right = np.array([a == b for a, b in zip(answers.tolist(), labels, strict=True)])
        return float(np.average(right, weights=sample_weight))

    def forget(self, label: Label) -> Self:
        """Remove a class from head, memory, prototypes and held-out images. The other weights, which were trained with
        it, stay."""
        self._check_known(label)
        if len(self._names) == 1:
            raise MocaError(f"{label!r} is the only class; remove the model instead")
        self.learning_ = without(self.learning_, self._names.index(label), self._fresh_learning)
        self._names = [name for name in self._names if name != label]
        self.kept_, self.version_ = self.kept_.without(label), None
        return self

    def rename(self, label: Label, name: Label) -> Self:
        """Give a class another name. Nothing else changes."""
        self._check_known(label)
        (name,) = self.of_known_kind([name])
        if name in self._names:
            raise MocaError(
                f"there is a class {name!r} already; to join them, teach the images of {label!r} as {name!r}"
            )
        self._names = [name if one == label else one for one in self._names]
        self.kept_, self.version_ = self.kept_.renamed(label, name), None
        return self

    def _check_known(self, label: Label) -> None:
        self._check_learnt()
        if label not in self._names:
            raise MocaError(f"there is no class {label!r}; {nearest(str(label), list(map(str, self._names)))}")

    def unlearn(self, images: Tensor, digests: Digests) -> None:
        """Remove mislabelled images from the memory and the held-out images. Weights that were trained with them
        stay."""
        wrong = self._to_samples(images)

        def gone(stored: Tensor) -> Tensor:
            return self._among(stored, wrong)

        self.learning_ = without_samples(self.learning_, gone, self._fresh_learning)
        self.kept_, self.version_ = self.kept_.less(digests, gone), None

    def _among(self, samples: Tensor, others: Tensor) -> Tensor:
        """A mask of the samples that equal one of the others, both as the model trains on them; features of a frozen
        encoder equal up to rounding."""
        if self.frozen_ is not None:
            here = others.flatten(1).double().to(samples.device)
            near = _ROUNDING * torch.linalg.vector_norm(here, dim=1)
            parts = samples.flatten(1).split(1024)  # all at once would be a large matrix
            return torch.cat([torch.cdist(some.double(), here).le(near).any(1) for some in parts])
        known, rows = (keys(digests_of(some.reshape(-1, *self.sample_shape).cpu())) for some in (others, samples))
        wanted = {*known}
        return torch.tensor([row in wanted for row in rows], dtype=torch.bool, device=samples.device)

    @property
    def was_run(self) -> bool:
        """Whether it began as a run."""
        return self.settings_.data != _DATA

    @property
    def keeps_vectors(self) -> bool:
        """Whether it trains on and stores vectors, so that its memory holds no images that can be shown."""
        self._check_learnt()
        return self.protocol_.vectors

    @property
    def takes_vectors(self) -> bool:
        """Whether its input is vectors. With a frozen encoder the input is images, though vectors are stored."""
        return self.keeps_vectors and self.frozen_ is None

    def memory_contents(self) -> dict[Label, list[Pixels]]:
        """The images in memory by class, each (height, width, channels); a vector is one pixel."""
        self._check_learnt()
        memory, found = self.learning_.memory, dict[Label, list[Pixels]]()
        fields = memory.all() if memory is not None else {}
        for image, y in zip(fields.get("image", ()), fields.get("y", ()), strict=True):
            found.setdefault(self._names[int(y)], []).append(image.permute(1, 2, 0).cpu().numpy())
        return found

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
        """Save it to a model folder as a new version; earlier versions stay.

        A folder whose model is another one, or has learnt something else since this one was loaded, is refused unless
        `replace`.
        """
        from moca.classifier.folder import ModelFolder

        self._check_learnt()
        folder = ModelFolder(path)
        folder.check_free()
        with folder.teaching():
            return folder.add(self, replace=replace)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write it as an ONNX file, for programs that only have onnxruntime; needs the extra `onnx`."""
        from moca.classifier.export import export

        self._check_learnt()
        return export(self, path).path

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        version: int | None = None,
        device: str = "auto",
        encoder: Any = None,
        frozen: Any = None,
        learner: Any = None,
        perturb: Any = None,
    ) -> Self:
        """Load the model in a folder, by default the version in use, or of a finished run. Parts that were your own
        objects must be passed again."""
        from moca.classifier.folder import ModelFolder

        folder = ModelFolder(path)
        own = {"encoder": encoder, "frozen": frozen, "learner": learner, "perturb": perturb}
        return folder.load(cls, version, device, **own)

    def about(self) -> dict[str, Any]:
        """Everything but the tensors, for a JSON file: settings, classes, preprocessing."""
        self._check_learnt()
        words = described(self.settings_, self._names, self.protocol_, self.sample_shape, self.frozen_)
        return words | {"epochs": self.epochs, "image_size": self.image_size}

    @classmethod
    def revived(cls, about: dict[str, Any], state: dict[str, Any], device: str = "auto", **own: Any) -> Self:
        """Rebuild a saved classifier from its `about()`, its state, and user-defined parts in `own`."""
        given = {"model" if name == "encoder" else name: part for name, part in own.items() if part is not None}
        run = validate(Run, about["settings"] | {"device": device} | given).with_options_of(about["settings"])
        learner, perturb, memory, model, fixed = (
            part if given or part is None else str(part)
            for part in (run.learner, run.perturb, run.memory, run.model, run.frozen)
        )
        loaded = cls(learner, perturb, memory, model, frozen=fixed, epochs=about.get("epochs"),
                     optimiser=str(run.optimiser), lr=run.lr, image_size=about.get("image_size"),
                     augment=run.augment, device=device, seed=run.seed.seed)  # fmt: skip
        loaded._names, frozen = list(about["classes"]), None
        if run.frozen is not None:
            protocol = _protocol(about["frozen"]["protocol"])
            frozen = Frozen(run.frozen, _shape(about["frozen"]["shape"]), protocol, pick_device(device))
            frozen.load(state["frozen"], protocol)
        loaded._build(run, _protocol(about["protocol"]), _shape(about["shape"]), len(loaded._names), frozen)
        loaded.learning_.load_state_dict(state)
        loaded.kept_ = Kept(**state.get("kept", {}))
        return loaded


def _warn_of_unreadable(lines: Sequence[str], read: int) -> None:
    """Warn of images of a folder that are left out, in the line that called `learn` or `score`."""
    if lines:
        warnings.warn(MocaWarning(left_out(lines, read + len(lines))), stacklevel=3)


def _train(trainer: Trainer, watch: Watch) -> None:
    """Train on one lesson; `watch` is called after every step."""
    total = trainer.schedule.total
    for done, step in enumerate(trainer.steps(), 1):
        if (done % _LOOK == 0 or done == total) and not _finite(step.losses.values()):
            raise MocaError("the loss is no longer a finite number; begin with another learner or perturbation")
        watch("learning", done, total)
    trainer.end_task()


def _protocol(saved: dict[str, Any]) -> Protocol:
    """A protocol from JSON, where tuples are lists."""
    facts: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()}
    return Protocol(**facts)


def _shape(saved: Sequence[int]) -> Shape:
    channels, height, width = saved
    return channels, height, width


def _first_protocol(x: Tensor, image_size: int | None) -> Protocol:
    """How samples like these first ones are preprocessed."""
    if x.is_floating_point():
        protocol = vector_protocol(x)
    else:
        channels, height, width = x.shape[1:]
        colours = 1 if bool((x == x[:, :1]).all()) else channels  # folders are always read in colour, even letters
        protocol = own_protocol((height, width, colours), *channel_statistics(x))
    return replace(protocol, image_size=image_size)


def _dataset(x: Tensor, y: Sequence[Label], names: Sequence[Label], protocol: Protocol) -> Dataset:
    """A lesson as a data set of one task, from which the default recipe for user data is chosen."""
    number = {name: place for place, name in enumerate(names)}
    labels = torch.tensor([number[label] for label in y])
    protocol = replace(protocol, tasks=(len(names),))
    return Dataset(_DATA, Split(x, labels), Split(x[:0], labels[:0]), tuple(map(str, names)), protocol)


def _sortable(label: Label) -> tuple[bool, Label]:
    return isinstance(label, str), label


def _finite(losses: Iterable[Tensor]) -> bool:
    return math.isfinite(float(sum(loss.item() for loss in losses)))
