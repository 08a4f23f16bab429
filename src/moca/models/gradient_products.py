"""How alike the gradients of samples are: inner products of every two, of the whole network in evaluation mode."""

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
from moca.models.per_sample import per_sample_gradients

_NUMBERS = 2**27
"""Most numbers of gradients that are held at once, times eight on a GPU."""


class _Call(NamedTuple):
    """What came into a layer and out of it."""

    layer: nn.Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Tensor
    version: int
    """Of the output: a ReLU in place, for one, makes it a later one."""


def gradient_products(model: Model, x: Tensor, y: Tensor) -> Tensor:
    """The inner product of the gradients of every two samples' cross-entropies, over all weights that are learnt.

    Samples do not see each other in evaluation mode, so one pass forth and back gives what comes into each layer and
    the slope at what comes out; a sample's gradient by the layer's weights is a product of the two, and its whole
    gradient is never held. In the model's precision; the model, its mode and its statistics stay as they are.
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
    """Inside, every call of a layer with weights is noted."""
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
    """The layer's own weights, those of layers inside it left out."""
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad}


def _each_once(model: Model, calls: list[_Call]) -> bool:
    """Whether each weight was used in just one call: else its gradient is more than that of a call."""
    times = Counter(id(p) for call in calls for p in _learnt(call.layer).values())
    return all(times[id(p)] == 1 for p in model.parameters() if p.requires_grad)


def _plain_call(call: _Call, rows: int) -> bool:
    """Whether a row a sample came in and out, nothing else by name, and what came out was not written to later: else
    the slope there is another one."""
    by_name = not isinstance(call.layer, BatchNorm2d) and any(isinstance(v, Tensor) for v in call.options.values())
    parts = (*call.inputs, call.output)
    whole = all(isinstance(part, Tensor) and len(part) == rows for part in parts)
    return whole and not by_name and call.output._version == call.version


def _products(call: _Call, slope: Tensor) -> Tensor:
    """Of the gradients by one layer's weights."""
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
    """What sums are kept in: at least float32."""
    return torch.promote_types(x.dtype, torch.float32)


def _of_a_linear_map(layer: nn.Linear | nn.Conv2d, x: Tensor, slope: Tensor) -> Tensor:
    """Of a layer that maps each place of a sample in the same way: x (n, places, inputs), slope (n, places, outputs).

    A sample's gradient is the sum over its places of slope times input. Where there are fewer places than inputs, the
    products of the places tell the same as those of the gradients, and are fewer.
    """
    n, places, inputs = x.shape
    x, learnt, products = x.to(slope.dtype), _learnt(layer), list[Tensor]()
    if "bias" in learnt:
        products += [_gram(slope.sum(1))]
    if "weight" in learnt and n * places < inputs:
        pairs = _gram(x.flatten(0, 1)) * _gram(slope.flatten(0, 1))
        products += [pairs.view(n, places, n, places).sum((1, 3))]
    elif "weight" in learnt:
        at_once = max(1, _NUMBERS * (8 if x.is_cuda else 1) // (n * inputs))
        products += [_gram((some.transpose(1, 2) @ x).flatten(1)) for some in slope.split(at_once, 2)]
    return torch.stack(products).sum(0)


def _one_patch(layer: nn.Conv2d) -> bool:
    """Whether every output is a linear map of one patch of all channels."""
    padded = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return padded and layer.groups == 1 and layer.dilation == (1, 1)


def _patches(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """What each output pixel looks at: (n, places, inputs)."""
    assert not isinstance(layer.padding, str)
    down, across = layer.padding
    x = F.pad(x, (across, across, down, down))
    (height, width), (below, beside) = layer.kernel_size, layer.stride
    windows = x.unfold(2, height, below).unfold(3, width, beside)
    return windows.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)


def _by_scale_and_shift(layer: BatchNorm2d, x: Tensor, slope: Tensor) -> Tensor:
    """The gradient of each sample by BatchNorm's weight and bias, a row each."""
    normalised = F.batch_norm(x, layer.running_mean, layer.running_var, eps=layer.eps)
    parts = {"weight": slope * normalised, "bias": slope}
    return torch.cat([parts[name].sum((2, 3), dtype=_wide(x)) for name in _learnt(layer)], 1)


def _by_any_weights(call: _Call, slope: Tensor) -> Tensor:
    """The same for any layer, which is run again for each sample by itself, in float32."""
    weights = {name: w.detach() for name, w in _learnt(call.layer).items()}

    def gradient(slope: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        single = tuple(part.unsqueeze(0) for part in inputs)
        back = vjp(lambda weights: functional_call(call.layer, weights, single, call.options), weights)[1]
        return tuple(back(slope.unsqueeze(0))[0].values())

    gradients = vmap(gradient)(*(part.to(_wide(part)) for part in (slope, *call.inputs)))
    return torch.cat([rows.reshape(len(rows), -1) for rows in gradients], 1)


def _of_the_whole(model: Model, x: Tensor, y: Tensor) -> Tensor:
    """The same for any network, by the whole gradient of each sample."""
    parts = [torch.cat(list(part.values()), 1) for part in per_sample_gradients(model, x, y)]
    return _gram(torch.cat(parts))
