"""Small networks and batches for the perturbations, and the frame that all of them share as a loop."""

import torch
from torch import Tensor

from moca import parts
from moca.batch import Batch
from moca.models import Model, build_model
from moca.perturb import Perturbation, perturbation
from moca.random import Random
from moca.settings import heads
from moca.settings.choice import choice_of

SHAPE, CLASSES, ROWS = (1, 6, 6), 6, 8
OLD = torch.tensor([True, False, True, True, False, True, False, True])

VARIANTS = ["gaussian", "vmf", "doa_old", "doa_new", "vt", "wap", "add_new", "minus_new", "fgsm", "mrfa"]
OPTIONS = [
    "gaussian:unit=false",
    "vmf:kappa=0",
    "vmf:noise=difference",
    "vmf:sampler=official",
    "doa_old:rate=0.2",
    "doa_old:site=stages",
    "doa_new:site=stages",
    "mrfa:site=stages",
    "vt:center=batch",
    "vt:center=classifier",
    "vt:momentum=0.5",
    "wap:steps=3",
    "wap:relative=false,step_size=0.5",
    "wap:radius=0.3",
    "wap:rows=all",
    "wap:labels=random,steps=2",
]
SPECS = VARIANTS + OPTIONS
ENCODERS = {
    "mlp": "mlp:width=12,depth=2,features=10",
    "convnet": "convnet:width=4,features=10",
    "resnet18": "resnet18:width=2",
}


def network(encoder: str = "convnet", head: heads.Cosine | heads.Linear | None = None, seed: int = 0) -> Model:
    """A small network; `convnet` and `resnet18` have BatchNorm, `mlp` has none."""
    # A scale of 5 makes the gradients, and so the steps of WAP, large enough to be seen.
    choice = choice_of(parts.ENCODERS, ENCODERS[encoder])
    return build_model(choice, head or heads.Cosine(scale=5.0), SHAPE, CLASSES, seed)


def make(spec: str, model: Model | None = None, seed: int = 7, lr: float | Tensor = 0.1) -> Perturbation:
    """A perturbation that has all it may ask for."""
    return perturbation(spec, model=model or network(), lr=lr, classes=CLASSES, seed=seed)


def scene(model: Model, rows: int = ROWS, new_rows: int = ROWS, seed: int = 0) -> tuple[Batch, Batch]:
    """A replay batch of the old classes 0-3 and the current ones 4-5, and a new batch of the current ones."""
    random = Random(seed, "scene")
    x, x_new = random.normal(rows, *SHAPE), random.normal(new_rows, *SHAPE)
    old = OLD.repeat(-(-rows // ROWS))[:rows]
    order = torch.arange(rows)
    y = torch.where(old, order % 4, 4 + order % 2)
    with torch.no_grad():
        h, h_new = model.encode(x), model.encode(x_new)
    return (
        Batch(x=x, y=y, old=old, features=h.requires_grad_()),
        Batch(x=x_new, y=4 + torch.arange(new_rows) % 2, features=h_new.requires_grad_()),
    )


def label_gradient(model: Model, replay: Batch) -> Tensor:
    """Of the cross-entropy by the feature, with a linear head: W^T (softmax - one-hot), one row at a time."""
    rows = []
    for h, y in zip(replay.features.detach(), replay.y.tolist(), strict=True):
        p = torch.softmax(model.head.weight @ h + model.head.bias, 0)
        p = torch.stack([p[c] - float(c == y) for c in range(CLASSES)])
        rows.append((model.head.weight.T @ p).detach())
    return torch.stack(rows)


def moved(h: Tensor, n: Tensor, old: Tensor, lam: float = 2.0, unit: bool = True) -> Tensor:
    """f = ||h|| P(P(h) + lambda P(n)) for old rows, h for the others: one row at a time."""
    rows = []
    for i in range(len(h)):
        if not old[i]:
            rows.append(h[i])
            continue
        direction = n[i] / n[i].norm() if unit and n[i].norm() > 0 else n[i]
        target = h[i] / h[i].norm() + lam * direction
        rows.append(h[i].norm() * target / target.norm())
    return torch.stack(rows)
