"""MRFA: rehearsal feature augmentation; a gradient-ascent step of each replayed feature on the loss of its label.

Paper: Zheng et al., Multi-layer Rehearsal Feature Augmentation, ICML 2024.
"""

from typing import Literal

import torch
from torch import Tensor

from moca.batch import Batch
from moca.models.auxiliary import auxiliary_encode
from moca.parts import option
from moca.perturb.base import Perturbation, label_loss, uphill


class MRFA(Perturbation):
    """n = grad_h CE(g(h), y_old); or the change of the feature if the output of every encoder stage takes such a step.

    Unlike FGSM's sign, the gradient keeps its direction, the steepest ascent of the loss, along which the margin is
    least.
    """

    site: Literal["feature", "stages"] = option("feature", "a step of the final feature, or after every stage")
    step: float = option(0.1, "length of a stage's step, relative to its output", gt=0)

    needs = ("model",)
    recipes = Perturbation.recipes | {"small": {"lambda": 0.5}}

    def check(self) -> None:
        """Steps inside the encoder need images."""
        super().check()
        if self.site == "stages":
            self.needs_images = "it makes its steps inside the encoder"  # type: ignore[misc]

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The direction of ascent of the replayed samples' loss."""
        if self.site == "stages":
            return self._through_stages(replay)
        return uphill(self.model, replay)

    def _through_stages(self, replay: Batch) -> Tensor:
        """The change of the feature by a step after every stage: one pass for the gradients, one with the steps."""
        offsets: list[Tensor] = []

        def with_offset(z: Tensor) -> Tensor:
            offsets.append(torch.zeros_like(z, requires_grad=True))
            return z + offsets[-1]

        with torch.enable_grad():
            h = auxiliary_encode(self.model, replay.x, after_stage=with_offset)
            gradients = iter(torch.autograd.grad(label_loss(self.model, h, replay.y), offsets))
        moved = auxiliary_encode(self.model, replay.x, after_stage=lambda z: z + self._step(z, next(gradients)))
        return moved - h.detach()

    def _step(self, z: Tensor, gradient: Tensor) -> Tensor:
        """A step along each row's gradient, `step` times as long as the row."""
        length, norm = (t.flatten(1).norm(dim=1).view(-1, *[1] * (t.dim() - 1)) for t in (z, gradient))
        step: Tensor = self.step * length * gradient / norm.clamp_min(1e-30)
        return step
