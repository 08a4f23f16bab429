"""Implicit augmentation (Figs. 5 and 11): pictures whose features are the perturbed features of an old image.

First, the latent of a generator that best reconstructs a real image, in pixels and feature, is found. From there, a
second search finds a picture for the perturbed feature, computed as in a training step: with a replay batch and a
batch of the last task.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

import torch
from torch import Tensor

from moca import sphere
from moca.batch import Batch
from moca.data import Dataset, Split, Transform
from moca.defaults import complete
from moca.engine.evaluate import in_evaluation
from moca.engine.learning import Learning
from moca.engine.progress import ProgressBar
from moca.errors import MocaError, nearest
from moca.generator import Pair
from moca.measures.analysis import Analysis, Axis, Plot
from moca.measures.final_model import OfModel
from moca.measures.inversion import invert
from moca.measures.pictures import sheet
from moca.perturb import Perturbation, perturbation
from moca.random import Random
from moca.settings import Run, validate
from moca.streams import Stream

NAME = "implicit_augmentation"
TITLE = "Implicit augmentation"
VARIANTS = ("gaussian", "vmf", "doa_old", "doa_new", "vt", "wap")
SHOWN = 3
"""The number of old classes of which an image is shown, unless classes are named."""
DRAWS = 6
"""The number of perturbed features for each image and variant."""
STEPS = 300
"""The number of steps of each search."""
_FIELDS = ("x", "y", "features", "old")
"""The fields of a batch that perturbations use."""
_AT_ONCE = 256
"""The largest number of pictures to search for together."""
_POOL = 1000
"""The largest number of images of the last task, or of earlier ones, to draw batches from."""


class ImplicitAugmentation:
    """Images of a finished run, their perturbed features, and pictures that have these features."""

    def __init__(self, learning: Learning, stream: Stream, classes: Sequence[str] = ()) -> None:
        self.learning, self.model, self.stream = learning, learning.model, stream
        about = OfModel(learning, stream)
        if not about.old:
            raise MocaError("there are no old classes, the run has one task only")
        if stream.dataset.vectors:
            raise MocaError("the run learns from vectors, of which there are no pictures")
        self.old = torch.tensor(about.old)
        self.replayed = _replayed(about)
        held = set(self.replayed.labels.tolist())
        self.shown_classes = _chosen({stream.names[c]: c for c in about.old}, held, classes)
        last = stream[-1].train
        last = last[Random(0, "implicit augmentation/new").permutation(len(last))[:_POOL]]
        self.new = _some(stream.train, last)
        self.transform = Transform.plain(stream.protocol, learning.device)
        self.shown = self._most_typical()

    def features(self, samples: Split) -> Tensor:
        """h(x) of the final model in evaluation mode."""
        index = torch.arange(len(samples))
        return in_evaluation(self.model, self.model.encode, samples.images, index, self.stream.protocol)

    def _most_typical(self) -> Split:
        """For each class shown, the replayed image whose feature is nearest to its class vector."""
        y = self.replayed.labels
        vectors = self.model.class_vectors.detach()[y.to(self.learning.device)]
        away = sphere.angle(self.features(self.replayed), vectors).cpu()
        places = [torch.where(y == c, away, math.inf).argmin() for c in self.shown_classes]
        return _some(self.replayed, torch.stack(places))

    def perturbed(self, perturb: Perturbation, draws: int) -> Tensor:
        """Perturbed features of the images shown, (draws, images, d); every draw has its own replay and new batch."""
        random = Random(0, "implicit augmentation/batches")
        count = len(self.shown)
        replayed, new = (self._batch(samples) for samples in (self.replayed, self.new))
        shown = self._batch(self.shown)
        perturb(_rows(replayed, torch.arange(1)), new)  # so that running means have seen every class of the last task
        moved = []
        for _ in range(draws):
            others = random.permutation(len(replayed.y))[: max(0, self.learning.replay_size - count)]
            beside = random.permutation(len(new.y))[: self.learning.settings.batch]
            replay = _joined(shown, _rows(replayed, others))
            moved.append(perturb(replay, _rows(new, beside))[:count])
        return torch.stack(moved)

    def _batch(self, samples: Split) -> Batch:
        device = self.learning.device
        y = samples.labels.to(device)
        old = torch.isin(y, self.old.to(device))
        x = self.transform(samples.images.to(device))
        return Batch(x=x, y=y, features=self.features(samples), old=old)

    def pictures(self, pair: Pair, progress: bool = False) -> Analysis:
        """Run both searches for every image, variant and draw."""
        self.model.eval()
        with self.learning.numerics(), self.model.in_float32():
            variants = variants_of(self.learning, self.stream.dataset)
            wanted = torch.stack([self.perturbed(perturb, DRAWS) for perturb in variants.values()])
            return self._found(pair, list(variants), wanted, progress)

    def _found(self, pair: Pair, names: list[str], wanted: Tensor, progress: bool) -> Analysis:
        device, count, (rows, draws) = self.learning.device, len(self.shown), wanted.shape[:2]
        y = torch.tensor([_number_of(image, self.stream.dataset) for image in self.shown.images], device=device)
        x, h = self.shown.images.to(device).float() / 127.5 - 1, self.features(self.shown)

        def encoded(made: Tensor) -> Tensor:
            return self.model.encode(self.transform((made + 1) * 127.5))

        def searched(start: Tensor, of: Tensor, f: Tensor, image: Tensor | None = None) -> tuple[Tensor, ...]:
            z = invert(lambda z: pair.generator(z, of), encoded, start, f, image, STEPS, lambda: bar(1, ""))
            with torch.no_grad():
                return z, (made := pair.generator(z, of)), encoded(made)

        starts = torch.arange(wanted[..., 0].numel(), device=device).split(_AT_ONCE)
        with ProgressBar(STEPS * (1 + len(starts)), "pictures", progress) as bar:
            z, rebuilt, reached = searched(pair.guess(x, y)[0], y, h, x)
            f = wanted.flatten(0, 2)
            found = [searched(z[some % count], y[some % count], f[some]) for some in starts]
        made, ended = (torch.cat([part[place] for part in found]) for place in (1, 2))

        turned, before, missed = (
            torch.rad2deg(sphere.angle(a.expand_as(wanted), wanted)).mean((1, 2)).tolist()
            for a in (h, reached, ended.view_as(wanted))
        )
        numbers: dict[str, float | None] = {
            "rebuilt images miss theirs by (degrees)": torch.rad2deg(sphere.angle(h, reached)).mean().item()
        }
        for name, *angles in zip(names, turned, before, missed, strict=True):
            for what, value in zip(("turned by", "missed at first by", "missed by"), angles, strict=True):
                numbers[f"{name}: {what} (degrees)"] = value
        labels = [
            f"{name}: {by:.0f}°, missed by {off:.0f}°" for name, by, off in zip(names, turned, missed, strict=True)
        ]
        strips = made.view(rows, draws, count, *made.shape[1:])
        columns = ["real", "rebuilt", *map(str, range(1, draws + 1))]
        series = {}
        for i, c in enumerate(self.shown.labels.tolist()):
            real = torch.stack([x[i], rebuilt[i]]).repeat(rows, 1, 1, 1, 1)
            real[1:] = math.nan  # shown in the first row only
            series[self.stream.names[c]] = sheet(torch.cat([real, strips[:, :, i]], 1))
        return Analysis(
            TITLE,
            "An image of an old class, the picture of a generator that comes nearest to it, and pictures whose "
            "features come nearest to what a perturbation made of the image's own: by how many degrees it turned it, "
            "and by how many degrees the pictures miss that.",
            numbers,
            {NAME: Plot("pictures", Axis("", columns), Axis("", labels), series)},
        )


def variants_of(learning: Learning, dataset: Dataset) -> dict[str, Perturbation]:
    """The paper's perturbations with the options of this run: its own as it was, the others by its protocol's recipe.

    Perturbations that the run's learner refuses are included, except those that need images if it replays prototypes.
    WAP's step is relative to the initial learning rate of the run.
    """
    settings, seed, found = learning.settings, learning.settings.seed.of("perturb"), {}
    for name in VARIANTS:
        plain = validate(Run, {"learner": "er", "perturb": name})
        other = settings.model_copy(update={"learner": plain.learner, "perturb": plain.perturb})
        choice = settings.perturb if settings.perturb.name == name else complete(other, dataset).perturb
        made = perturbation(choice, model=learning.model, lr=settings.lr, classes=learning.classes, seed=seed)
        if learning.learner.replays_images or not made.needs_images:
            found[name] = made
    return found


def _chosen(old: Mapping[str, int], held: Container[int], named: Sequence[str]) -> list[int]:
    """The old classes to show: those named, or some that are evenly spread over those with a stored image."""
    present = {name: c for name, c in old.items() if c in held}
    for name in named:
        if name not in old:
            raise MocaError(f"'{name}' is not a class of an earlier task; {nearest(name, old)}")
        if name not in present:
            raise MocaError(f"the memory holds no image of class '{name}'; it has {', '.join(sorted(present))}")
    if named:
        return [present[name] for name in named]
    numbers = list(present.values())
    return [numbers[i] for i in sorted({round(i * (len(numbers) - 1) / (SHOWN - 1)) for i in range(SHOWN)})]


def _replayed(about: OfModel) -> Split:
    """The stored samples or, if there are no images of old classes, training images of earlier tasks."""
    if about.stored and torch.isin(about.stored[1], torch.tensor(about.old)).any():
        return Split(*about.stored)
    before = torch.cat([task.train for task in about.stream][:-1])
    before = before[Random(0, "implicit augmentation/old").permutation(len(before))[:_POOL]]
    return _some(about.stream.train, before)


def _some(samples: Split, index: Tensor) -> Split:
    return Split(samples.images[index], samples.labels[index])


def _number_of(image: Tensor, dataset: Dataset) -> int:
    """The class number of an image in its data set, which may differ from that in the stream."""
    images, middle = dataset.train.images, image.shape[1] // 2
    candidates = (images[:, :, middle] == image[:, middle]).flatten(1).all(1).nonzero().flatten()
    for place in candidates.tolist():
        if torch.equal(images[place], image):
            return int(dataset.train.labels[place])
    raise MocaError("an image in the memory is none of the data set's training images; was the data set changed?")


def _rows(batch: Batch, index: Tensor) -> Batch:
    index = index.to(batch.y.device)
    return Batch(**{name: getattr(batch, name)[index] for name in _FIELDS})


def _joined(first: Batch, second: Batch) -> Batch:
    return Batch(**{name: torch.cat([getattr(first, name), getattr(second, name)]) for name in _FIELDS})
