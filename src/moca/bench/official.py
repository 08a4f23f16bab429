"""A twin of the official code's training loop as a baseline for timing: re-implemented from what that code does.

New samples are PIL images that loader processes augment one by one, each with an un-augmented copy. The replay buffer
is on the device; every draw goes sample by sample to the host, through PIL, and back. The reservoir is a loop. The
network runs eagerly, in float32 with torch's own defaults, in separate passes, some of which the loss does not need;
WAP copies the whole network into a proxy at every step. The loss is read from the device at every step.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from moca.data import Protocol
from moca.models import build_model
from moca.numerics import torch_defaults
from moca.perturb.gaussian import Gaussian
from moca.perturb.wap import WAP
from moca.settings import Run, validate
from moca.settings.method import method
from moca.streams import Stream

_METHODS = ("none", "gaussian", "wap")
"""Perturbations that the twin supports, all with er."""
_OPTIONS = {"lam", "step_size"}
"""Their options that can be set; all others are fixed as in the official code, which is our default."""
WORKERS = 4
"""Data-loader processes on a GPU. On the CPU there are none: they would use more cores than the learner is given."""


def has_twin(label: str) -> bool:
    """Whether the twin can run this method."""
    settings = validate(Run, method(label))
    perturb = settings.perturb
    as_official = perturb.model_dump(exclude=_OPTIONS) == type(perturb)(name=perturb.name).model_dump(exclude=_OPTIONS)
    return settings.learner.name == "er" and perturb.name in _METHODS and as_official


class PerSample:
    """Crop, flip, tensor, normalise: one PIL image at a time."""

    def __init__(self, protocol: Protocol, augment: bool = True) -> None:
        self.padding, self.flip = (protocol.crop_padding, protocol.flip) if augment else (0, False)
        self.mean, self.std = (torch.tensor(v).view(-1, 1, 1) for v in (protocol.mean, protocol.std))

    def __call__(self, image: Image.Image) -> Tensor:
        """The image as the encoder sees it."""
        if self.padding:
            width, height = image.size
            left, top = torch.randint(0, 2 * self.padding + 1, (2,)).tolist()
            image = ImageOps.expand(image, self.padding).crop((left, top, left + width, top + height))
        if self.flip and torch.rand(1).item() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return (to_tensor(image) - self.mean) / self.std


def to_tensor(image: Image.Image) -> Tensor:
    """(channels, height, width) in [0, 1]."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)


def to_image(x: Tensor) -> Image.Image:
    """The reverse of `to_tensor`, from whatever device x is on."""
    return Image.fromarray(x.cpu().mul(255).round().byte().permute(1, 2, 0).numpy())


class NewSamples(TorchDataset[tuple[Tensor, int, Tensor]]):
    """The samples of a task: augmented image, label, and the image without augmentation, for the buffer."""

    def __init__(self, images: NDArray[np.uint8], labels: list[int], transform: PerSample) -> None:
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor]:
        image = Image.fromarray(self.images[index])
        return self.transform(image), self.labels[index], to_tensor(image)


class Buffer:
    """A reservoir (algorithm R, a sample at a time) of images in [0, 1] and labels on the device."""

    def __init__(self, size: int, transform: PerSample, device: torch.device, seed: int) -> None:
        self.size, self.transform, self.device = size, transform, device
        self.random = np.random.default_rng(seed)
        self.seen = 0
        self.images, self.labels = torch.empty(0), torch.empty(0)

    def __len__(self) -> int:
        return min(self.size, self.seen)

    def add(self, images: Tensor, labels: Tensor) -> None:
        """Offer a batch."""
        if self.seen == 0:
            self.images = torch.zeros(self.size, *images.shape[1:], device=self.device)
            self.labels = torch.zeros(self.size, dtype=torch.int64, device=self.device)
        for image, label in zip(images, labels, strict=True):
            slot = self.seen if self.seen < self.size else int(self.random.integers(self.seen + 1))
            self.seen += 1
            if slot < self.size:
                self.images[slot], self.labels[slot] = image.to(self.device), label.to(self.device)

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """Draw samples without replacement, each transformed on the host as a PIL image."""
        index = torch.from_numpy(self.random.choice(len(self), min(count, len(self)), replace=False)).to(self.device)
        images = torch.stack([self.transform(to_image(image)) for image in self.images[index]])
        return images.to(self.device), self.labels[index]


class OfficialTwin:
    """A method that `has_twin`, as the official code runs it, in its second task with a full buffer."""

    def __init__(self, settings: Run, stream: Stream, device: torch.device) -> None:
        assert settings.model is not None
        self.settings, self.device, self.perturb = settings, device, settings.perturb.make()
        self.sequence = settings.learner.make().official_passes(self.perturb).later
        init = settings.seed.of("init")
        self.model = build_model(settings.model, settings.head, stream.dataset.shape, stream.classes, init).to(device)
        self.proxy = copy.deepcopy(self.model)
        self.optimiser = torch.optim.SGD(self.model.parameters(), settings.lr)
        self.proxy_optimiser = torch.optim.SGD(self.proxy.parameters(), settings.lr)
        transform = PerSample(stream.dataset.protocol, settings.augment)
        self.buffer = Buffer(settings.memory.size, transform, device, settings.seed.of("memory"))
        first, second = stream[0], stream[1]
        self.buffer.add(stream.train.images[first.train].float().div(255), stream.train.labels[first.train])
        self.first_new_class = min(second.classes)
        images = stream.train.images[second.train].permute(0, 2, 3, 1).contiguous().numpy()
        samples = NewSamples(images, stream.train.labels[second.train].tolist(), transform)
        workers = WORKERS if device.type == "cuda" else 0
        self.loader = DataLoader(samples, settings.batch, shuffle=True, num_workers=workers)

    def steps(self) -> Iterator[float]:
        """Train, epoch after epoch, and yield each step's loss."""
        self.model.train()
        while True:
            for batch in self.loader:
                with torch_defaults():
                    loss = self.step(*(part.to(self.device) for part in batch))
                yield loss

    def step(self, x: Tensor, y: Tensor, raw: Tensor) -> float:
        """One update; the buffer is then offered the new samples."""
        self.optimiser.zero_grad()
        loss = self.loss(x, y, *self.buffer.draw(self.settings.batch))
        loss.backward()
        self.optimiser.step()
        self.buffer.add(raw, y)
        return loss.item()

    def loss(self, x: Tensor, y: Tensor, replay_x: Tensor, replay_y: Tensor) -> Tensor:
        """CE(new) + CE(replay), after all forward passes that the official code makes."""
        batches, features = {"n": x, "b": replay_x}, {}
        for role in self.sequence:
            features[role] = self.model.encoder(batches[role])
        loss = F.cross_entropy(self.model.head(features["n"]), y)
        moved = self._moved(features["b"], replay_x, replay_y, y)
        return loss + F.cross_entropy(self.model.head(moved), replay_y)

    def _moved(self, h: Tensor, replay_x: Tensor, replay_y: Tensor, y: Tensor) -> Tensor:
        """The replayed features, with those of old classes perturbed; the cosine head normalises them."""
        if not self.perturb.moves:
            return h
        old = replay_y < self.first_new_class
        n = torch.randn_like(h) if isinstance(self.perturb, Gaussian) else self._adversarial(replay_x, y, old)
        u = h / h.norm(dim=1, keepdim=True)
        return torch.where(old.unsqueeze(1), u + self.perturb.lam * (n / n.norm(dim=1, keepdim=True)), u)

    def _adversarial(self, replay_x: Tensor, y: Tensor, old: Tensor) -> Tensor:
        """Features from a copy of the network that took one step towards classifying old samples as new classes."""
        assert isinstance(self.perturb, WAP)
        self.proxy.load_state_dict(copy.deepcopy(self.model.state_dict()))
        self.proxy.train()
        if old.any():
            logits = self.proxy.head(self.proxy.encoder(replay_x[old]))
            loss = self.perturb.step_size * F.cross_entropy(logits, y[old])
            self.proxy_optimiser.zero_grad()
            loss.backward()
            self.proxy_optimiser.step()
        with torch.no_grad():
            features: Tensor = self.proxy.encoder(replay_x)
        return features
