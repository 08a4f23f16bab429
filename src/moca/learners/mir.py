"""MIR: maximally interfered retrieval; replays the samples that the coming step would harm most.

Paper: Aljundi, Caccia, Belilovsky, Caccia, Lin, Charlin, Tuytelaars, NeurIPS 2019, arXiv 1908.04742.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Learner, Losses
from moca.memory import Memory, Past
from moca.models.auxiliary import auxiliary_logits
from moca.parts import option


class Interfered(Past):
    """Draws, among random stored samples of old classes, those whose loss a step on the new batch would raise most."""

    def choose(self, count: int, memory: Memory, new: Batch | None = None) -> Tensor:
        """Return `count` slots, those of old classes first."""
        if new is None or self.learner.first_task:
            return super().choose(count, memory)
        # Candidates come as old classes, other classes, empty slots; the stable sort below keeps this order among ties.
        pool = super().choose(min(max(self.learner.candidates, count), memory.size), memory)
        if len(pool) == count:
            return pool
        y = memory.fields["y"][pool]
        old = self.learner.is_old(y) & (pool < memory.count)
        score = self._interference(new, self.learner.view(memory.fields["image"][pool]), y, old)
        return pool[score.masked_fill(~old, -torch.inf).argsort(descending=True, stable=True)[:count]]

    @torch.no_grad()
    def _interference(self, new: Batch, x: Tensor, y: Tensor, old: Tensor) -> Tensor:
        """By how much the virtual step raises each sample's loss; BatchNorm counts only samples of old classes.

        In float32, because in bfloat16 a small step would vanish in the rounding of the weights.
        """
        model, share, stepped = self.learner.model, old / old.sum().clamp_min(1), self._stepped(new)
        with model.in_float32():
            after, before = (
                F.cross_entropy(auxiliary_logits(model, x, weights, share), y, reduction="none")
                for weights in (stepped, None)
            )
        return after - before

    @torch.enable_grad()
    def _stepped(self, new: Batch) -> dict[str, Tensor]:
        """The weights after one gradient-descent step on the new samples; the model itself is not changed."""
        model = self.learner.model
        weights = {name: p.detach().requires_grad_(p.requires_grad) for name, p in model.named_parameters()}
        trained = [name for name, w in weights.items() if w.requires_grad]
        loss = F.cross_entropy(auxiliary_logits(model, new.x, weights), new.y)
        gradients = torch.autograd.grad(loss, [weights[name] for name in trained], materialize_grads=True)
        steps = torch._foreach_mul(gradients, self.learner.lr)
        moved = torch._foreach_sub([weights[name].detach() for name in trained], steps)
        return weights | dict(zip(trained, moved, strict=True))


class MIR(Learner):
    """Experience replay, from the second task on, of the old samples that a step without replay would harm most."""

    candidates: int = option(50, "random stored samples of old classes among which the replayed ones are chosen", ge=1)

    draw = Interfered

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new), and from the second task on CE over replayed samples of old classes."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if replays and not self.first_task:
            losses["replay"] = self.loss_of_old(replays[0], new)
        return losses
