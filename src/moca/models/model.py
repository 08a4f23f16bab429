"""Encoder and head together, and always apart: MOCA lives between `encode` and `classify`."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from moca.models.encoder import Encoder
from moca.models.heads import Head, build_head
from moca.models.resnet import ResNet18
from moca.models.small import MLP, ConvNet
from moca.random import derive
from moca.settings import models as settings

_ENCODERS: dict[str, Callable[..., Encoder]] = {"resnet18": ResNet18, "convnet": ConvNet, "mlp": MLP}


class Model(nn.Module):
    """A network as two halves. Any module that maps images to vectors can be the encoder,
    and a plain `nn.Linear` the head."""

    def __init__(self, encoder: nn.Module, head: Head | nn.Linear) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.bf16 = False
        """Whether the encoder runs in bfloat16 autocast; features and head stay in float32."""

    def encode(self, x: Tensor) -> Tensor:
        """Features h of the images x, in float32."""
        with self.casting(x.device):
            features: Tensor = self.encoder(x)
        return features.float()

    def casting(self, device: torch.device) -> torch.autocast:
        """The encoder's precision, as a context."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.bf16)

    def classify(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        logits: Tensor = self.head(h)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the images x."""
        return self.classify(self.encode(x))


def build_model(
    encoder: settings.ResNet18 | settings.ConvNet | settings.MLP,
    head: settings.Cosine | settings.Linear,
    shape: tuple[int, int, int],
    classes: int,
    seed: int = 0,
) -> Model:
    """The model that the settings ask for, with initial weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive(seed, "init"))
        body = _ENCODERS[encoder.name](shape, **encoder.model_dump(exclude={"name"}))
        return Model(body, build_head(head, body.features, classes))
