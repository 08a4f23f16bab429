"""WAP: weight-adversarial perturbation, the model-based perturbation that the paper recommends.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca import graph_branch, kernels
from moca.batch import Batch, paired
from moca.errors import MocaError
from moca.models.auxiliary import auxiliary_encode
from moca.models.precision import subtract
from moca.parts import option
from moca.perturb.base import Perturbation
from moca.perturb_checks import class_numbers


class WAP(Perturbation):
    """n = h(x_old) under adversarial weights, which classify old samples as new: T gradient steps on
    CE(g(h(x_old)), y_new).

    Only weights that are trained take these steps; frozen ones (`requires_grad=False`) stay. The model itself, its
    gradients and its BatchNorm statistics are not changed.
    """

    steps: int = option(1, "T, inner steps", ge=1, le=100)
    step_size: float = option(
        10.0, "size of an inner step: gamma, times the learning rate; or zeta, with relative=false", gt=0
    )
    relative: bool = option(True, "multiply the step size by the current learning rate")
    radius: float | None = option(None, "epsilon, radius of the L2 ball around the weights", gt=0)
    rows: Literal["old", "all"] = option("old", "replayed rows that the inner step uses")
    labels: Literal["batch", "random"] = option(
        "batch", "adversarial labels: the new batch's by row, or drawn from them at random"
    )

    needs_images = "it passes the old samples through other weights"
    official_pass = ""
    recipes = Perturbation.recipes | {"small": {"lambda": 0.5}}

    @property
    def needs(self) -> tuple[str, ...]:
        """The model, and the learning rate if steps are relative to it."""
        return ("model", "lr") if self.relative else ("model",)

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Features of the replayed samples under the adversarial weights."""
        with graph_branch.branch():
            return auxiliary_encode(self.model, replay.x, self._adversarial_weights(replay, new.y))

    def _adversarial_weights(self, replay: Batch, y_new: Tensor) -> dict[str, Tensor]:
        x, old = replay.x, replay.old if self.rows == "old" else None
        start = {name: p.detach() for name, p in self.model.encoder.named_parameters() if p.requires_grad}
        if not start:
            raise MocaError(
                "'wap' moves the encoder's weights, and this encoder has none that are trained; use another, such as "
                "mlp, or another perturbation"
            )
        moved, rounded = start, _among(start, self.model.rounded({}))
        for step in range(self.steps):
            gradients = self._gradients(rounded, x, self._labels(y_new, len(x)), old)
            # The last step's weights are only used, so they are rounded right away; others keep their full precision.
            last = step == self.steps - 1 and self.radius is None
            moved = subtract(moved, gradients, rounded if last else start)
            if self.radius is not None:
                moved = _within_ball(moved, start, self.radius)
            rounded = _among(moved, self.model.rounded(moved))
        return rounded

    def _labels(self, y: Tensor, count: int) -> Tensor:
        if self.labels == "random":
            return y[self.random.below(torch.full((count,), len(y), device=y.device))]
        return paired(y, count)

    def _gradients(self, weights: dict[str, Tensor], x: Tensor, y: Tensor, old: Tensor | None) -> dict[str, Tensor]:
        """The step size times the gradients of the adversarial loss with respect to the encoder's weights; the
        classifier is fixed."""
        share = _shares(old, x)
        with torch.enable_grad():
            leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
            h = auxiliary_encode(self.model, x, leaves, rows=None if old is None else share)
            logits = self.model.classify(h)
        # The step size multiplies the rows' shares instead of every gradient.
        step = self.step_size * (self.lr if self.relative else 1.0)
        slope = _slope(logits.detach(), class_numbers(y, *logits.shape), step * share)
        gradients = torch.autograd.grad(logits, list(leaves.values()), slope, materialize_grads=True)
        return dict(zip(leaves, gradients, strict=True))


def _among(weights: dict[str, Tensor], rounded: dict[str, Tensor]) -> dict[str, Tensor]:
    """These weights, rounded where a bfloat16 model rounds them."""
    return {name: rounded.get(name, weight) for name, weight in weights.items()}


def _shares(old: Tensor | None, batch: Tensor) -> Tensor:
    """The weight of each row in a mean over old rows: uniform without `old`, all 0 if no row is old."""
    precise = torch.promote_types(batch.dtype, torch.float32)
    if old is None:
        return torch.full((len(batch),), 1 / len(batch), device=batch.device, dtype=precise)
    return old.to(precise) / old.sum().clamp_min(1)


def _slope(logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """The gradient of the weighted cross-entropy with respect to the logits; the loss itself is not needed."""
    if kernels.usable(logits):
        from moca.kernels import adversary

        return adversary.slope(logits, y, weight)
    with torch.enable_grad():
        logits = logits.requires_grad_()
        loss = (F.cross_entropy(logits, y, reduction="none") * weight).sum()
    return torch.autograd.grad(loss, logits)[0]


def _within_ball(weights: dict[str, Tensor], center: dict[str, Tensor], radius: float) -> dict[str, Tensor]:
    """Project the weights to the L2 ball of this radius, over all weights together, around `center`."""
    delta = [weights[k] - center[k] for k in center]
    length = torch.stack(torch._foreach_norm(delta)).norm()
    shrink = (radius / length).clamp_max(1)
    return {k: center[k] + shrink * d for k, d in zip(center, delta, strict=True)}
