"""The model: encoder and head, called separately, since MOCA acts between `encode` and `classify`."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from moca import fusion
from moca.errors import MocaError
from moca.models.batch_norm.foreign import keep_batches_apart
from moca.models.encoders.base import AfterStage, Encoder
from moca.models.heads import Head
from moca.models.precision import in_bfloat16
from moca.numerics import tf32
from moca.settings import Choice

WRAP = "wrap it in a module that picks or pools them"
"""The advice for an encoder that returns something other than feature vectors, such as tokens or several outputs."""


class Model(nn.Module):
    """A network in two halves, encoder and classifier; MOCA acts between them.

    The modules are not copied. In moca's own steps the encoder's BatchNorm layers, of any type, treat new and replayed
    samples as separate batches; everywhere else they behave as before.

    Args:
        encoder: Any module that maps images to feature vectors (n, d).
        head: The classifier: `CosineHead`, `LinearHead`, a plain `nn.Linear`, or any module that maps vectors to
            logits. `vt:center=classifier` and the analyses need a weight with one row per class, as the first three
            have.
        outputs: The number of outputs for each class, stored consecutively; the first is the class itself.
    """

    head: Head | nn.Linear

    def __init__(self, encoder: nn.Module, head: nn.Module, outputs: int = 1) -> None:
        super().__init__()
        for name, module in (("encoder", encoder), ("head", head)):
            if not isinstance(module, nn.Module):
                raise TypeError(
                    f"{name} of a moca.Model is a torch module, not a {type(module).__name__}; wrap it in one"
                )
        self.encoder = keep_batches_apart(encoder)
        self.head = head  # type: ignore[assignment]  # for other modules class_vectors and grow raise an error
        self.outputs = outputs
        """Outputs of the head for each class, stored consecutively; the first is the class itself."""
        self.made_by: Choice | None = None
        """The setting that the encoder was built from, if it was."""
        self.bf16 = False
        """Whether the encoder runs in bfloat16 autocast; features and head stay in float32."""
        self._rounded: dict[str, Tensor] | None = None
        self._compiled = False

    def encode(
        self, x: Tensor, tensors: dict[str, Tensor] | None = None, after_stage: AfterStage | None = None
    ) -> Tensor:
        """Features h of the images x, in the head's dtype; `tensors` replace parameters and buffers of the encoder by
        name."""
        if after_stage is not None and not isinstance(self.encoder, Encoder):
            raise MocaError("an encoder of your own has no stages to look into; use one of moca's (moca ls)")
        inputs = (x,) if after_stage is None else (x, after_stage)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            if self._compiled and after_stage is None:
                own = dict(self.encoder.named_parameters()) | dict(self.encoder.named_buffers())
                features = fusion.compiled(self.encoder)(own | (tensors or {}), x)
            else:
                features = functional_call(self.encoder, self.rounded(tensors or {}), inputs)
        if not isinstance(features, Tensor):
            raise TypeError(
                f"an encoder returns one tensor, the features (n, d), not {type(features).__name__}; {WRAP}"
            )
        return features.to(self.dtype)

    def rounded(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The given tensors; in a bfloat16 model also the encoder's weights, cast to bfloat16 as autocast would."""
        if not self.bf16:
            return tensors
        if not tensors and self._rounded is not None:
            return self._rounded
        return tensors | in_bfloat16(self.encoder, tensors)

    @contextmanager
    def one_step(self, compiled: bool = False) -> Iterator[None]:
        """Wraps the passes of one step, during which the weights do not change: all share the bfloat16 weights cast at
        its start. With `compiled`, the encoder runs compiled, and casts by itself."""
        before = self._rounded, self._compiled
        self._rounded, self._compiled = None if compiled else self.rounded({}), compiled
        try:
            yield
        finally:
            self._rounded, self._compiled = before

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Compute in float32 inside the block, even if the model uses bfloat16: for results that depend on small
        differences. On a GPU such a model uses TensorFloat-32, with an eighth of bfloat16's error at part of its
        speed."""
        before, self.bf16 = self.bf16, False
        try:
            with tf32(True, True) if before and next(self.parameters()).is_cuda else nullcontext():
                yield
        finally:
            self.bf16 = before

    def classify(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        logits: Tensor = self.head(h)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the images x."""
        return self.classify(self.encode(x))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the features and the head: float32, unless a user-defined network has another."""
        return next((parameter.dtype for parameter in self.head.parameters()), torch.float32)

    @property
    def class_vectors(self) -> Tensor:
        """The row of the head's weight for each class."""
        if not isinstance(getattr(self.head, "weight", None), Tensor):
            raise MocaError(
                f"this needs a classifier with a row for each class, nn.Linear or moca.CosineHead, not a "
                f"{type(self.head).__name__}"
            )
        return self.head.weight[:: self.outputs]

    def grow(self, classes: int) -> None:
        """Extend the head to more classes; its parameters become new objects."""
        if not isinstance(self.head, Head):
            raise MocaError("only moca's own heads can grow; use moca.LinearHead or moca.CosineHead")
        self.head.grow(classes * self.outputs)

    @torch.no_grad()
    def grow_like(self, other: "Model") -> None:
        """Extend the head to as many classes as `other`, the network this is a copy of; new rows are copied from it."""
        head = deepcopy(other.head).requires_grad_(False)
        for grown, known in zip(head.parameters(), self.head.parameters(), strict=True):
            (grown[: len(known)] if known.dim() else grown).copy_(known)
        self.head = head
