"""Frozen encoders: images are encoded once, and the model trains on the feature vectors."""

from __future__ import annotations

import functools
import hashlib
import warnings
from copy import copy, deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn

from moca.data import Dataset, Protocol, Split, Transform
from moca.data.progress import Watch, silent
from moca.data.protocol import vector_protocol
from moca.errors import MocaError, MocaWarning
from moca.inference_batches import MOST, at_once
from moca.models.build import made_encoder
from moca.numerics import deterministic, tf32
from moca.settings import Choice


class Frozen:
    """An encoder with fixed weights, used as a transform of the data: bytes in, feature vectors out."""

    def __init__(self, choice: Choice, shape: tuple[int, int, int], protocol: Protocol, device: torch.device) -> None:
        """Build it for images of this shape. They are normalised as in its training if that is known, else by the
        protocol."""
        made = made_encoder(choice, shape)
        self.encoder: nn.Module = made.body.to(device).eval().requires_grad_(False)
        self.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.choice, self.shape, self.features, self.device = made.choice, shape, made.features, device
        self.untrained = made.untrained
        mean, std = made.normalisation or (protocol.mean, protocol.std)
        self.protocol = Protocol(tuple(mean), tuple(std))
        """How images are prepared for it: never augmented."""

    @torch.no_grad()
    def __call__(self, images: Tensor, watch: Watch = silent) -> Tensor:
        """Feature vectors (n, d, 1, 1) of raw images, returned on the CPU.

        Always computed in float32, whatever the run's precision, so that they agree on all devices up to rounding.
        """
        view = Transform.plain(self.protocol, self.device)
        batches = images.split(at_once(images, MOST[self.device.type])) if len(images) else ()
        with deterministic(), tf32(convolutions=False, products=False):
            rows, done = [torch.empty(0, self.features)], 0
            for batch in batches:
                rows.append(self.encoder(view(batch.to(self.device))).float().cpu())
                watch("encoding images", done := done + len(batch), len(images))
        return torch.cat(rows)[:, :, None, None]

    def on_the_cpu(self) -> Frozen:
        """A copy on the CPU."""
        twin = copy(self)
        twin.encoder, twin.device = deepcopy(self.encoder).cpu(), torch.device("cpu")
        return twin

    def load(self, state: dict[str, Tensor], protocol: Protocol) -> None:
        """Restore saved weights, and how images were prepared for them."""
        try:
            self.encoder.load_state_dict(state)
        except RuntimeError as error:
            first = " ".join(str(error).split())[:200]
            raise MocaError(
                f"the frozen encoder handed in is not the one that this model learnt with: {first}"
            ) from None
        self.protocol = protocol

    def state(self) -> dict[str, Tensor]:
        """Its weights."""
        return dict(self.encoder.state_dict())

    def dataset(self, data: Dataset, watch: Watch = silent) -> Dataset:
        """The data set with feature vectors instead of images; it is then treated like a user's data set of vectors.

        An untrained encoder only causes a warning, since someone may want it as a baseline.
        """
        if self.untrained:
            line = (
                f"the features of the frozen {self.choice} are those of an untrained network, with random weights; "
                "weights that were learnt are frozen with pretrained:weights=..."
            )
            warnings.warn(MocaWarning(line), stacklevel=2)
        train, test = (Split(self(split.images, watch), split.labels) for split in (data.train, data.test))
        protocol = replace(
            vector_protocol(train.images),
            tasks=data.protocol.tasks,
            class_order=data.protocol.class_order,
            image_size=data.protocol.image_size,
        )
        fingerprint = f"{data.fingerprint}/{self.digest}"
        return replace(
            data, train=train, test=test, protocol=protocol, protocols={}, fingerprint=fingerprint, frozen=self
        )

    @functools.cached_property
    def digest(self) -> str:
        """A hash of its weights, which determine the features."""
        found = hashlib.blake2b(digest_size=8)
        for name, value in self.state().items():
            found.update(name.encode() + value.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return found.hexdigest()
