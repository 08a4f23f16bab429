"""Weights in bfloat16, cast all at once; autocast casts them one by one, with two kernels each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from moca import kernels


def in_bfloat16(encoder: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights that autocast would cast to bfloat16, by name, taken from `tensors` or else from the encoder.

    Gradients flow back to the originals in float32, as through autocast.
    """
    all_weights = dict(encoder.named_parameters()) | tensors
    weights = {name: all_weights[name] for name in _weights(encoder) if name in all_weights}
    weights = {name: w for name, w in weights.items() if w.dtype == torch.float32}
    learnt = {name: w for name, w in weights.items() if w.requires_grad and torch.is_grad_enabled()}
    fixed = {name: w for name, w in weights.items() if name not in learnt}
    cast: tuple[Tensor, ...] = _Cast.apply(*learnt.values()) if learnt else ()  # type: ignore[no-untyped-call]
    return dict(zip([*learnt, *fixed], [*cast, *_as(torch.bfloat16, fixed.values())], strict=True))


def subtract(weights: dict[str, Tensor], steps: dict[str, Tensor], like: dict[str, Tensor]) -> dict[str, Tensor]:
    """weights - steps by name, each rounded once to the dtype of the same name in `like`."""
    exact = [name for name, w in weights.items() if w.dtype == steps[name].dtype == like[name].dtype]
    moved = torch._foreach_sub([weights[name] for name in exact], [steps[name] for name in exact]) if exact else []
    rounded = {name: _less(w, steps[name], like[name].dtype) for name, w in weights.items() if name not in exact}
    return dict(zip(exact, moved, strict=True)) | rounded


def _less(weight: Tensor, step: Tensor, dtype: torch.dtype) -> Tensor:
    orders = (torch.contiguous_format, torch.channels_last) if weight.dim() == 4 else (torch.contiguous_format,)
    if kernels.usable(weight) and any(weight.is_contiguous(memory_format=order) for order in orders):
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
        ctx.set_materialize_grads(False)
        return tuple(_as(torch.bfloat16, weights))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        cast = iter(_as(torch.float32, [g for g in gradients if g is not None]))
        return tuple(None if g is None else next(cast) for g in gradients)


def _as(dtype: torch.dtype, tensors: Iterable[Tensor]) -> list[Tensor]:
    tensors = list(tensors)
    cast = [torch.empty_like(t, dtype=dtype) for t in tensors]
    if tensors:
        with torch.no_grad():
            torch._foreach_copy_(cast, tensors)
    return cast
