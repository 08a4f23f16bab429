"""WAP: weight-adversarial perturbation, the model-based perturbation that the paper recommends."""

import torch
import torch.nn.functional as F
from torch import Tensor

from moca import beside, kernels
from moca.batch import Batch
from moca.models.auxiliary import auxiliary_encode
from moca.models.precision import subtract
from moca.perturb.base import Perturbation
from moca.perturb.rows import paired, shares
from moca.settings import perturb


class WAP(Perturbation[perturb.WAP]):
    """n = h(x_old) under weights moved to call old samples new: T steps down CE(g(h(x_old)), y_new).

    The model itself, its gradients and its BatchNorm statistics stay untouched.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The network, and the learning rate where steps are relative to it."""
        return ("model", "lr") if self.settings.relative else ("model",)

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Features of the replayed samples in the adversarial network."""
        with beside.branch():
            return auxiliary_encode(self.model, replay.x, self._adversarial_weights(replay, new.y))

    def _adversarial_weights(self, replay: Batch, y_new: Tensor) -> dict[str, Tensor]:
        x, old = replay.x, replay.old if self.settings.rows == "old" else None
        start = {name: p.detach() for name, p in self.model.encoder.named_parameters()}
        moved, rounded = start, start | self.model.rounded({})
        for step in range(self.settings.steps):
            gradients = self._gradients(rounded, x, self._labels(y_new, len(x)), old)
            # Weights that are only to be used are rounded at once; those to be moved on stay as precise as they were.
            last = step == self.settings.steps - 1 and self.settings.radius is None
            moved = subtract(moved, gradients, rounded if last else start)
            if self.settings.radius is not None:
                moved = _within_ball(moved, start, self.settings.radius)
            rounded = self.model.rounded(moved)
        return rounded

    def _labels(self, y: Tensor, count: int) -> Tensor:
        if self.settings.labels == "random":
            return y[self.random.below(torch.full((count,), len(y), device=y.device))]
        return paired(y, count)

    def _gradients(self, weights: dict[str, Tensor], x: Tensor, y: Tensor, old: Tensor | None) -> dict[str, Tensor]:
        """The adversarial loss's gradients by the encoder's weights, times the step size; the classifier stays."""
        share = shares(old, x)
        with torch.enable_grad():
            leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
            h = auxiliary_encode(self.model, x, leaves, rows=None if old is None else share)
            logits = self.model.classify(h)
        # The step size multiplies the rows' shares instead of every gradient.
        step = self.settings.step_size * (self.lr if self.settings.relative else 1.0)
        slope = _slope(logits.detach(), y, step * share)
        gradients = torch.autograd.grad(logits, list(leaves.values()), slope, materialize_grads=True)
        return dict(zip(leaves, gradients, strict=True))


def _slope(logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """The gradient of the weighted cross-entropy by the logits, all that is needed of that loss."""
    if kernels.usable(logits):
        from moca.kernels import adversary

        return adversary.slope(logits, y, weight)
    with torch.enable_grad():
        logits = logits.requires_grad_()
        loss = (F.cross_entropy(logits, y, reduction="none") * weight).sum()
    return torch.autograd.grad(loss, logits)[0]


def _within_ball(weights: dict[str, Tensor], center: dict[str, Tensor], radius: float) -> dict[str, Tensor]:
    """The nearest weights at most `radius` (L2, over all of them) from the centre."""
    delta = [weights[k] - center[k] for k in center]
    length = torch.stack(torch._foreach_norm(delta)).norm()
    shrink = (radius / length.clamp_min(1e-12)).clamp_max(1)
    return {k: center[k] + shrink * d for k, d in zip(center, delta, strict=True)}
