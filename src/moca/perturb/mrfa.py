"""MRFA: rehearsal feature augmentation; a gradient-ascent step from each replayed feature up the loss of its label.

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
    """n = gradient of CE(g(h), y_old) with respect to h; or where the feature goes if every stage's output makes such a
    step.

    Unlike FGSM's sign, the gradient keeps its direction: the steepest way up the loss, along which the margin is least.
    """

    site: Literal["feature", "stages"] = option("feature", "steps from the final feature, or after every stage")
    step: float = option(0.1, "length of a stage's step, relative to its output", gt=0)

    needs = ("model",)
    recipes = Perturbation.recipes | {"small": {"lambda": 0.5}}

    def check(self) -> None:
        """Stages are those of the encoder."""
        super().check()
        if self.site == "stages":
            self.needs_images = "it makes its steps inside the encoder"  # type: ignore[misc]

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The way up the replayed samples' loss."""
        if self.site == "stages":
            return self._through_stages(replay)
        return uphill(self.model, replay)

    def _through_stages(self, replay: Batch) -> Tensor:
        """How the feature changes with a step after every stage: one pass to know the gradients, one with the steps."""
        offsets: list[Tensor] = []

        def watched(z: Tensor) -> Tensor:
            offsets.append(torch.zeros_like(z, requires_grad=True))
            return z + offsets[-1]

        with torch.enable_grad():
            h = auxiliary_encode(self.model, replay.x, after_stage=watched)
            gradients = iter(torch.autograd.grad(label_loss(self.model, h, replay.y), offsets))
        moved = auxiliary_encode(self.model, replay.x, after_stage=lambda z: z + self._step(z, next(gradients)))
        return moved - h.detach()

    def _step(self, z: Tensor, gradient: Tensor) -> Tensor:
        """Along the gradient of each row, as long as `step` says."""
        length, norm = (t.flatten(1).norm(dim=1).view(-1, *[1] * (t.dim() - 1)) for t in (z, gradient))
        step: Tensor = self.step * length * gradient / norm.clamp_min(1e-30)
        return step
