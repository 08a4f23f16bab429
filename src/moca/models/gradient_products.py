"""Pairwise inner products of per-sample gradients, over the whole network in evaluation mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from moca.models.batch_norm.layer import BatchNorm2d
from moca.models.evaluating import evaluating
from moca.models.model import Model
from moca.models.per_sample import held_at_once, per_sample_gradients


class _Call(NamedTuple):
    """One call of a layer: its inputs and its output."""

    layer: nn.Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Tensor
    version: int
    """Version counter of the output when the layer returned; an in-place ReLU, for example, increases it."""


def gradient_products(model: Model, x: Tensor, y: Tensor) -> Tensor:
    """The inner products of the cross-entropy gradients of all pairs of samples, over all trainable weights.

    In evaluation mode samples do not affect each other, so one forward and backward pass gives each layer's input and
    the gradient at its output. A sample's gradient with respect to the layer's weights is a product of the two, so the
    full gradient is never held. Computed in the model's precision; leaves the model, its mode and its statistics
    unchanged.
    """
    with evaluating(model):
        with torch.enable_grad(), _calls(model) as calls:
            loss = F.cross_entropy(model(x), y, reduction="sum")
        if not (_each_once(model, calls) and all(_plain_call(call, len(x)) for call in calls)):
            return _of_the_whole(model, x, y)
        slopes = torch.autograd.grad(loss, [call.output for call in calls])
        return torch.stack([_products(*pair) for pair in zip(calls, slopes, strict=True)]).sum(0)


@contextmanager
def _calls(model: Model) -> Iterator[list[_Call]]:
    """Record every call of a layer with trainable weights inside the block."""
    calls = list[_Call]()

    def note(layer: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        calls.append(_Call(layer, inputs, options, output, getattr(output, "_version", 0)))

    hooks = [layer.register_forward_hook(note, with_kwargs=True) for layer in model.modules() if _learnt(layer)]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _learnt(layer: nn.Module) -> dict[str, Tensor]:
    """The layer's own trainable weights, without those of its submodules."""
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad}


def _each_once(model: Model, calls: list[_Call]) -> bool:
    """Whether each weight was used in exactly one call; otherwise its gradient sums over several."""
    times = Counter(id(p) for call in calls for p in _learnt(call.layer).values())
    return all(times[id(p)] == 1 for p in model.parameters() if p.requires_grad)


def _plain_call(call: _Call, rows: int) -> bool:
    """Whether inputs and output have one row per sample, no tensor was passed by keyword (except to `BatchNorm2d`), and
    the output was not modified in place later, which would change the gradient there."""
    by_name = not isinstance(call.layer, BatchNorm2d) and any(isinstance(v, Tensor) for v in call.options.values())
    parts = (*call.inputs, call.output)
    whole = all(isinstance(part, Tensor) and len(part) == rows for part in parts)
    return whole and not by_name and call.output._version == call.version


def _products(call: _Call, slope: Tensor) -> Tensor:
    """Inner products of the gradients with respect to one layer's weights; `slope` is the gradient at its output."""
    layer, (x, *_) = call.layer, call.inputs
    if isinstance(layer, BatchNorm2d):
        return _gram(_by_scale_and_shift(layer, x, slope * (call.output > 0) if call.options.get("relu") else slope))
    if isinstance(layer, nn.Linear):
        return _of_a_linear_map(layer, x.unsqueeze(1).flatten(1, -2), slope.unsqueeze(1).flatten(1, -2))
    if isinstance(layer, nn.Conv2d) and _one_patch(layer):
        return _of_a_linear_map(layer, _patches(layer, x), slope.permute(0, 2, 3, 1).flatten(1, 2))
    return _gram(_by_any_weights(call, slope))


def _gram(rows: Tensor) -> Tensor:
    return (rows @ rows.T).to(_wide(rows))


def _wide(x: Tensor) -> torch.dtype:
    """The dtype for sums: at least float32."""
    return torch.promote_types(x.dtype, torch.float32)


def _of_a_linear_map(layer: nn.Linear | nn.Conv2d, x: Tensor, slope: Tensor) -> Tensor:
    """Inner products for a layer that applies the same linear map at each position of a sample.

    x is (n, places, inputs), slope (n, places, outputs). A sample's gradient is the sum over its positions of slope
    times input. With fewer positions than inputs, products between positions give the same result with less work.
    """
    n, places, inputs = x.shape
    x, learnt, products = x.to(slope.dtype), _learnt(layer), list[Tensor]()
    if "bias" in learnt:
        products += [_gram(slope.sum(1))]
    if "weight" in learnt and n * places < inputs:
        pairs = _gram(x.flatten(0, 1)) * _gram(slope.flatten(0, 1))
        products += [pairs.view(n, places, n, places).sum((1, 3))]
    elif "weight" in learnt:
        outputs = slope.split(held_at_once(n * inputs, x), 2)
        products += [_gram((some.transpose(1, 2) @ x).flatten(1)) for some in outputs]
    return torch.stack(products).sum(0)


def _one_patch(layer: nn.Conv2d) -> bool:
    """Whether every output is a linear map of one contiguous patch over all channels."""
    padded = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return padded and layer.groups == 1 and layer.dilation == (1, 1)


def _patches(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The input patch of each output pixel: (n, places, inputs)."""
    assert not isinstance(layer.padding, str)
    down, across = layer.padding
    x = F.pad(x, (across, across, down, down))
    (height, width), (below, beside) = layer.kernel_size, layer.stride
    windows = x.unfold(2, height, below).unfold(3, width, beside)
    return windows.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)


def _by_scale_and_shift(layer: BatchNorm2d, x: Tensor, slope: Tensor) -> Tensor:
    """The gradients with respect to BatchNorm's weight and bias, one row per sample."""
    normalised = F.batch_norm(x, layer.running_mean, layer.running_var, eps=layer.eps)
    parts = {"weight": slope * normalised, "bias": slope}
    return torch.cat([parts[name].sum((2, 3), dtype=_wide(x)) for name in _learnt(layer)], 1)


def _by_any_weights(call: _Call, slope: Tensor) -> Tensor:
    """The gradients for a layer of any other type, one row per sample: the layer is rerun for each, in float32."""
    weights = {name: w.detach() for name, w in _learnt(call.layer).items()}

    def gradient(slope: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        single = tuple(part.unsqueeze(0) for part in inputs)
        back = vjp(lambda weights: functional_call(call.layer, weights, single, call.options), weights)[1]
        return tuple(back(slope.unsqueeze(0))[0].values())

    gradients = vmap(gradient)(*(part.to(_wide(part)) for part in (slope, *call.inputs)))
    return torch.cat([rows.reshape(len(rows), -1) for rows in gradients], 1)


def _of_the_whole(model: Model, x: Tensor, y: Tensor) -> Tensor:
    """The fallback for any network, from the full gradient of each sample."""
    parts = [torch.cat(list(part.values()), 1) for part in per_sample_gradients(model, x, y)]
    return _gram(torch.cat(parts))
