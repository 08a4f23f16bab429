"""Whole steps with every kernel in its place against the plain ones."""

import pytest
import torch

from moca import class_incremental, kernels
from moca.engine.trainer import Trainer
from moca.settings import Run, validate
from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


def three_steps_in_each_task(make_dataset, method: dict[str, str]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    settings = {"model": "convnet:width=3,features=6", "batch": 4, "memory": 9, "lr": 0.05, "tasks": 2}
    run = validate(Run, settings | method | {"device": str(DEVICE), "execution": "eager", "precision": "fp32"})
    data = make_dataset((6, 6, 6, 6), channels=3, side=6, crop_padding=1, flip=True)
    trainer, losses = Trainer(run, class_incremental(data, 2)), []
    for _ in range(2):
        losses += [sum(step.values()).item() for step in trainer.steps()]
        trainer.next_task()
    return torch.tensor(losses), {name: field[:-1].cpu() for name, field in trainer.memory.fields.items()}


@pytest.mark.parametrize(
    "method", [{"perturb": "gaussian"}, {"perturb": "wap"}, {"learner": "derpp", "perturb": "vmf"}], ids=str
)
def test_like_plain_steps(make_dataset, monkeypatch, method):
    monkeypatch.setattr(kernels, "usable", lambda x: False)
    expected, kept_then = three_steps_in_each_task(make_dataset, method)
    used = []
    monkeypatch.setattr(kernels, "usable", lambda x: used.append(x.shape) or True)
    losses, kept = three_steps_in_each_task(make_dataset, method)
    assert used
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-4)
    for name in ("image", "y", "task"):
        assert kept[name].equal(kept_then[name])
