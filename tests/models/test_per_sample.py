"""The gradient of each sample by itself against a backward pass a sample."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moca import Model
from moca.models import per_sample


@pytest.mark.parametrize("numbers", [2**27, 100, 1])
def test_the_gradient_of_each_sample_however_many_at_once(monkeypatch, numbers):
    """Of a model with BatchNorm and a fixed weight, in training mode as during a step."""
    monkeypatch.setattr(per_sample, "_NUMBERS", numbers)
    torch.manual_seed(0)
    model = Model(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)), nn.Linear(3, 6))
    model.encoder[3].bias.requires_grad_(False)
    model.encoder[1].running_mean += 0.3
    model.bf16 = True
    x, y = torch.randn(7, 3), torch.randint(6, (7,))
    parts = list(per_sample.per_sample_gradients(model, x, y))
    learnt = [p for p in model.parameters() if p.requires_grad]
    assert len(next(iter(parts[0].values()))) == min(7, max(1, numbers // sum(p.numel() for p in learnt)))
    assert model.bf16 and model.training and model.encoder[1].training
    rows = torch.cat([torch.cat(list(part.values()), 1) for part in parts])
    model.bf16 = False
    model.eval()
    for row, image, label in zip(rows, x, y, strict=True):
        gradients = torch.autograd.grad(F.cross_entropy(model(image[None]), label[None]), learnt)
        torch.testing.assert_close(row, torch.cat([g.flatten() for g in gradients]), atol=1e-6, rtol=1e-5)
    assert all(p.grad is None for p in model.parameters())
