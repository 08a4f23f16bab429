"""Optimisers whose learning rate is a tensor, so that a captured step follows the schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from moca.settings import optimisers as settings
from moca.state import longer

Kind = TypeVar("Kind", bound=Optimizer)
_KEEP_OUT = {"_disable_dynamo.<locals>.inner", "_use_grad_for_differentiable.<locals>._use_grad"}
"""The wrappers that torch puts around optimiser methods to keep torch.compile out of them."""

_WAYS = ("fused", "foreach", "capturable")
"""Options that torch saves with an optimiser's state, although they depend on the device."""


def uncompiled(kind: type[Kind]) -> type[Kind]:
    """A torch optimiser without the wrappers that keep torch.compile out of its methods.

    moca never compiles an optimiser, but on their first call these wrappers import all of torch.compile, which takes as
    long as importing torch itself. In a torch version with other wrappers they stay, and only the start is slower.
    """
    methods: dict[str, Any] = {}
    for name in ("add_param_group", "state_dict", "load_state_dict", "zero_grad", "step"):
        method: Any = getattr(kind, name)
        code = getattr(method, "__code__", None)
        if code and code.co_qualname in _KEEP_OUT:
            methods[name] = method.__wrapped__
    if "step" in methods:
        methods["step"] = torch.no_grad()(methods["step"])  # as its wrapper does
    return type(kind.__name__, (kind,), {"__module__": __name__, **methods})


SGD, Adam, AdamW = uncompiled(torch.optim.SGD), uncompiled(torch.optim.Adam), uncompiled(torch.optim.AdamW)


def build_optimiser(
    choice: settings.SGD | settings.Adam | settings.AdamW, parameters: Iterable[nn.Parameter], lr: Tensor
) -> Optimizer:
    """The optimiser that the settings describe, over the trainable parameters."""
    trained = [p for p in parameters if p.requires_grad]
    on_gpu = lr.device.type == "cuda"  # implementations that are not fused read the learning rate back to the host
    if isinstance(choice, settings.SGD):
        return SGD(
            trained, lr, choice.momentum, weight_decay=choice.weight_decay, nesterov=choice.nesterov, fused=on_gpu
        )
    kind = AdamW if isinstance(choice, settings.AdamW) else Adam
    return kind(
        trained, lr, (choice.beta1, choice.beta2), choice.eps, choice.weight_decay, capturable=on_gpu, fused=on_gpu
    )


def load_optimiser(optimiser: Optimizer, state: dict[str, Any], lr: Tensor) -> None:
    """Restore an optimiser's state, keeping the learning-rate tensor and the options for this device."""
    ways = [{name: group[name] for name in _WAYS if name in group} for group in optimiser.param_groups]
    groups = [group | way for group, way in zip(state["param_groups"], ways, strict=True)]
    optimiser.load_state_dict(state | {"param_groups": groups})
    for group in optimiser.param_groups:
        group["lr"] = lr


def carry_over(old: Optimizer, new: Optimizer, renewed: dict[nn.Parameter, nn.Parameter]) -> None:
    """Copy the old optimiser's state to the new one.

    `renewed` maps each parameter to the one it replaced, which may have fewer rows; the state of new rows is zero.
    """
    for parameter, before in renewed.items():
        if before in old.state:
            new.state[parameter] = {name: _grown(v, before, parameter) for name, v in old.state[before].items()}


def _grown(value: object, before: Tensor, now: Tensor) -> object:
    if isinstance(value, Tensor) and value.shape == before.shape != now.shape:
        return longer(value, len(now))
    return value
