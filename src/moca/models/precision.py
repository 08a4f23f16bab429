"""Weights in bfloat16, cast all at once: autocast takes them one by one, two kernels each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from moca import kernels


def in_bfloat16(encoder: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights that autocast would cast, by name; taken from `tensors` or else from the encoder.

    Gradients flow back to the originals in float32, as through autocast.
    """
    own = dict(encoder.named_parameters())
    weights = {name: tensors.get(name, own[name]) for name in _weights(encoder)}
    weights = {name: w for name, w in weights.items() if w.dtype == torch.float32}
    cast: tuple[Tensor, ...] = _Cast.apply(*weights.values()) if weights else ()  # type: ignore[no-untyped-call]
    return dict(zip(weights, cast, strict=True))


def less(weights: dict[str, Tensor], steps: dict[str, Tensor], like: dict[str, Tensor]) -> dict[str, Tensor]:
    """weights - steps by name, each rounded once to the precision of its namesake in `like`."""
    exact = [name for name, w in weights.items() if w.dtype == steps[name].dtype == like[name].dtype]
    moved = torch._foreach_sub([weights[name] for name in exact], [steps[name] for name in exact]) if exact else []
    rounded = {name: _less(w, steps[name], like[name].dtype) for name, w in weights.items() if name not in exact}
    return dict(zip(exact, moved, strict=True)) | rounded


def _less(weight: Tensor, step: Tensor, dtype: torch.dtype) -> Tensor:
    if kernels.usable(weight):
        from moca.kernels.descend import descend

        return descend(weight, step, dtype)
    return (weight - step).to(dtype)


def _weights(encoder: nn.Module) -> list[str]:
    """Names of the weights of convolutions and linear layers."""
    return [
        f"{name}.weight" if name else "weight"
        for name, module in encoder.named_modules()
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear)
    ]


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        return _as(torch.bfloat16, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _as(torch.float32, gradients)


def _as(dtype: torch.dtype, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    cast = [torch.empty_like(t, dtype=dtype) for t in tensors]
    torch._foreach_copy_(cast, list(tensors))
    return tuple(cast)
