"""Makes BatchNorm layers of any type normalise the batches of a pass separately, for encoders from elsewhere."""

from __future__ import annotations

import functools
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.lazy import LazyModuleMixin
from torch.overrides import TorchFunctionMode

from moca.errors import MocaError
from moca.models.batch_norm.batches import Batches, batches_for
from moca.models.batch_norm.layer import BatchNorm2d, Running, normalise


def keep_batches_apart(module: nn.Module) -> nn.Module:
    """Make the module's BatchNorm layers obey `batches_apart`, in place; elsewhere they behave as before.

    Inside `batches_apart`, SyncBatchNorm does not synchronise between processes. If the encoder cuts samples into
    parts, the parts of a sample must stay together.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, LazyModuleMixin) and isinstance(layer, _BatchNorm):
            raise MocaError(f"run one batch through the encoder first: its layer '{name}' does not know its size yet")
        if isinstance(layer, _BatchNorm) and not obeys(layer):
            kind: Any = type(layer)
            layer.__class__ = _obeying(kind)
    return module


def obeys(layer: nn.Module) -> bool:
    """Whether a layer is a BatchNorm that obeys `batches_apart` and can leave its statistics unchanged."""
    return isinstance(layer, BatchNorm2d | _Obeying)


class _Obeying(_BatchNorm):
    """Base class added to a BatchNorm layer of another type; see `_obeying`."""

    _kind: type[_BatchNorm]

    def forward(self, input: Tensor, *args: Any, **options: Any) -> Tensor:
        batches = batches_for(self)
        if batches is None:
            return super().forward(input, *args, **options)
        if self._kind.forward in (_BatchNorm.forward, nn.SyncBatchNorm.forward):
            self._check_input_dim(input)  # type: ignore[no-untyped-call]
            return normalise(input, self.weight, self.bias, self.eps, batches, Running.of(self, batches))
        # A type with its own forward pass, such as one with an activation: replace only its call of F.batch_norm.
        counted, running = self.num_batches_tracked, Running.of(self, batches)
        self.num_batches_tracked = None
        try:
            with _Core(batches, running):
                return super().forward(input, *args, **options)
        finally:
            self.num_batches_tracked = counted

    def __reduce__(self) -> Any:
        """Copy and pickle by the original class, since a class created at run time cannot be imported."""
        return _revived, (self._kind,), self.__dict__


@functools.cache
def _obeying(kind: Any) -> type[_BatchNorm]:
    # A new name, because modules with the same repr share one compilation.
    return type(f"{kind.__name__}Apart", (_Obeying, kind), {"_kind": kind, "__doc__": kind.__doc__})


def _revived(kind: Any) -> _BatchNorm:
    obeying = _obeying(kind)
    return obeying.__new__(obeying)


class _Core(TorchFunctionMode):
    """Inside, `torch.nn.functional.batch_norm` normalises the batches separately."""

    def __init__(self, batches: Batches, running: Running | None) -> None:
        super().__init__()
        self.batches, self.running = batches, running

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = self._normalised(*args, **(kwargs or {})) if func is F.batch_norm else None
        return func(*args, **(kwargs or {})) if result is None else result

    def _normalised(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor | None:
        return normalise(x, weight, bias, eps, self.batches, self.running) if training else None
