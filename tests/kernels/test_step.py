"""Whole steps with every kernel in its place against the plain ones."""

from functools import partial
from importlib import import_module

import pytest
import torch

from moca import kernels
from moca.engine.material import Material
from moca.engine.trainer import Trainer
from moca.settings import Run, validate
from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")

SMALL = {"model": "convnet:width=3,features=6", "precision": "fp32"}
ONE_PASS = SMALL | {"learner": "er:passes=concatenated"}
RESIDUAL = {"model": "resnet18:width=2", "precision": "fp32"}
KERNELS = {"transform": "transform", "batch_norm": "batch_norm", "project": "sphere", "displace": "sphere"}
KERNELS |= {"numbers": "random", "slope": "adversary", "descend": "descend"}
IN_MOST = set(KERNELS) - {"slope", "descend"}
IN_WAP = set(KERNELS) - {"descend"}


def steps_in_each_task(make_dataset, method: dict[str, str]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    settings = {"batch": 6, "memory": 12, "lr": 0.05, "tasks": 2, "device": str(DEVICE), "execution": "eager"}
    later = 3 if method["model"].startswith("resnet18") else 6  # its many layers take long to interpret
    data = make_dataset((3, 3, later, later), channels=3, side=4, crop_padding=1, flip=True)
    trainer, losses = Trainer(*Material()(validate(Run, {"data": data, "epochs": 1} | settings | method))), []
    for _ in range(2):
        losses += [sum(step.losses.values()).item() for step in trainer.steps()]
        trainer.next_task()
    return torch.tensor(losses), {name: field[:-1].cpu() for name, field in trainer.learning.memory.fields.items()}


def noted(called, name, kernel, *args, **options):
    called.add(name)
    return kernel(*args, **options)


@pytest.mark.parametrize(
    ("method", "used", "tolerance"),
    [
        (SMALL | {"perturb": "gaussian"}, IN_MOST, 1e-4),
        (
            SMALL | {"perturb": "gaussian:fixed_angle=30", "learner": "er:passes=concatenated"},
            IN_MOST - {"displace"},
            1e-4,
        ),
        (SMALL | {"perturb": "wap"}, IN_WAP, 1e-4),
        (SMALL | {"learner": "derpp", "perturb": "vmf"}, IN_MOST, 1e-4),
        (RESIDUAL | {"perturb": "wap"}, IN_WAP, 2e-3),
        (SMALL | {"perturb": "wap", "precision": "bf16"}, set(KERNELS), 1e-2),
    ],
    ids=["gaussian", "fixed angle, one pass", "wap", "derpp and vmf", "wap with residuals", "wap in bfloat16"],
)
def test_like_plain_steps(make_dataset, monkeypatch, method, used, tolerance):
    monkeypatch.setattr(kernels, "usable", lambda x: False)
    expected, kept_then = steps_in_each_task(make_dataset, method)
    called = set()
    for name, home in KERNELS.items():
        module = import_module(f"moca.kernels.{home}")
        monkeypatch.setattr(module, name, partial(noted, called, name, getattr(module, name)))
    monkeypatch.setattr(kernels, "usable", lambda x: True)
    losses, kept = steps_in_each_task(make_dataset, method)
    assert called == used
    torch.testing.assert_close(losses, expected, rtol=tolerance, atol=tolerance)
    for name in ("image", "y"):
        assert kept[name].equal(kept_then[name])
