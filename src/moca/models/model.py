"""Encoder and head together, and always apart: MOCA lives between `encode` and `classify`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from moca import fusion
from moca.models.encoder import AfterStage, Encoder
from moca.models.heads import Head, build_head
from moca.models.precision import in_bfloat16
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
        self._rounded: dict[str, Tensor] | None = None
        self._compiled = False

    def encode(
        self, x: Tensor, tensors: dict[str, Tensor] | None = None, after_stage: AfterStage | None = None
    ) -> Tensor:
        """Features h of the images x, in float32; `tensors` take the place of the encoder's own, by name."""
        inputs = (x,) if after_stage is None else (x, after_stage)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            if self._compiled and after_stage is None:
                own = dict(self.encoder.named_parameters()) | dict(self.encoder.named_buffers())
                features = fusion.shared(self.encoder)(own | (tensors or {}), x)
            else:
                features = functional_call(self.encoder, self.rounded(tensors or {}), inputs)
        return features.float()

    def rounded(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The given tensors, and in bfloat16 those of the encoder's weights that it computes with in that precision."""
        if not self.bf16:
            return tensors
        if not tensors and self._rounded is not None:
            return self._rounded
        return tensors | in_bfloat16(self.encoder, tensors)

    @contextmanager
    def one_step(self, compiled: bool = False) -> Iterator[None]:
        """Inside, where the weights stay as they are, all passes share what was rounded at its beginning; or the
        encoder runs compiled, which rounds by itself."""
        before = self._rounded, self._compiled
        self._rounded, self._compiled = None if compiled else self.rounded({}), compiled
        try:
            yield
        finally:
            self._rounded, self._compiled = before

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
