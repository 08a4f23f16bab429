"""Encoder and head together, and always apart: MOCA lives between `encode` and `classify`."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.backends import cudnn
from torch.backends.cuda import matmul
from torch.func import functional_call

from moca import fusion
from moca.errors import MocaError
from moca.models.batch_norm.foreign import keep_batches_apart
from moca.models.encoders.base import AfterStage, Encoder
from moca.models.heads import Head
from moca.models.precision import in_bfloat16
from moca.settings import Choice

WRAP = "wrap it in a module that picks or pools them"
"""What to do with an encoder that returns something else, such as tokens or several outputs."""


class Model(nn.Module):
    """A network in two halves, encoder and classifier; MOCA works between them.

    The modules stay yours. In moca's own steps BatchNorm layers of the encoder, of any kind, are told which rows are
    one batch; everywhere else they do what they did.

    Args:
        encoder: Any module that makes one vector (n, d) of each image.
        head: The classifier: `CosineHead`, `LinearHead`, a plain `nn.Linear`, or any module that makes logits of
            vectors; `vt:center=classifier` and the analyses ask for a row for each class, as those named have.
        outputs: How many outputs the head has for each class, one after the other; the first is the class itself.
    """

    head: Head | nn.Linear

    def __init__(self, encoder: nn.Module, head: nn.Module, outputs: int = 1) -> None:
        super().__init__()
        self.encoder = keep_batches_apart(encoder)
        self.head = head  # type: ignore[assignment]  # of other kinds class_vectors and grow say that they cannot
        self.outputs = outputs
        """Outputs of the head for each class, one after the other; the first is the class itself."""
        self.made_by: Choice | None = None
        """What makes an encoder like its own, where settings did."""
        self.bf16 = False
        """Whether the encoder runs in bfloat16 autocast; features and head stay in float32."""
        self._rounded: dict[str, Tensor] | None = None
        self._compiled = False

    def encode(
        self, x: Tensor, tensors: dict[str, Tensor] | None = None, after_stage: AfterStage | None = None
    ) -> Tensor:
        """Features h of the images x, as precise as the head is; `tensors` take the place of the encoder's own, by
        name."""
        if after_stage is not None and not isinstance(self.encoder, Encoder):
            raise MocaError("an encoder of your own has no stages to look into; use one of moca's (moca ls)")
        inputs = (x,) if after_stage is None else (x, after_stage)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            if self._compiled and after_stage is None:
                own = dict(self.encoder.named_parameters()) | dict(self.encoder.named_buffers())
                features = fusion.shared(self.encoder)(own | (tensors or {}), x)
            else:
                features = functional_call(self.encoder, self.rounded(tensors or {}), inputs)
        if not isinstance(features, Tensor):
            raise TypeError(
                f"an encoder returns one tensor, the features (n, d), not {type(features).__name__}; {WRAP}"
            )
        return features.to(self.dtype)

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

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Inside, a model of bfloat16 computes in float32, for what small differences decide; on a GPU with factors
        rounded to TensorFloat-32, whose errors are an eighth of bfloat16's at some of the speed."""
        before = self.bf16, cudnn.allow_tf32, matmul.allow_tf32
        if self.bf16 and next(self.parameters()).is_cuda:
            cudnn.allow_tf32 = matmul.allow_tf32 = True
        self.bf16 = False
        try:
            yield
        finally:
            self.bf16, cudnn.allow_tf32, matmul.allow_tf32 = before

    def classify(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        logits: Tensor = self.head(h)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the images x."""
        return self.classify(self.encode(x))

    @property
    def dtype(self) -> torch.dtype:
        """Of the features, as the head takes them: float32, unless the user's own network is in another precision."""
        return next((parameter.dtype for parameter in self.head.parameters()), torch.float32)

    @property
    def class_vectors(self) -> Tensor:
        """The row of the head that stands for each class."""
        if not isinstance(getattr(self.head, "weight", None), Tensor):
            raise MocaError(
                f"this needs a classifier with a row for each class, nn.Linear or moca.CosineHead, not a "
                f"{type(self.head).__name__}"
            )
        return self.head.weight[:: self.outputs]

    def grow(self, classes: int) -> None:
        """Make room for more classes in the head, whose parameters are new objects then."""
        if not isinstance(self.head, Head):
            raise MocaError("only moca's own heads can grow; use moca.LinearHead or moca.CosineHead")
        self.head.grow(classes * self.outputs)

    @torch.no_grad()
    def grow_like(self, other: "Model") -> None:
        """Make room for as many classes as the network has that this is a copy of, with its rows for those that are
        new."""
        head = deepcopy(other.head).requires_grad_(False)
        for grown, known in zip(head.parameters(), self.head.parameters(), strict=True):
            (grown[: len(known)] if known.dim() else grown).copy_(known)
        self.head = head
