"""Singular values of the gradients of the loss with respect to features, for replayed and new samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from moca import sphere
from moca.engine.watch import StepRecord, TaskRecord
from moca.measures.analysis import Analysis, Axis, Plot, numbered
from moca.measures.record.base import Recording, replayed_as_seen
from moca.measures.spectrum import effective_rank, gram, shares, singular_values

if TYPE_CHECKING:
    from moca.engine.run import Running

_SHOWN = 100
"""The number of singular values in the figure, as in the paper."""
ALL, REPLAYED, NEW, OFFICIAL = "all rows", "replayed rows", "new rows", "all rows, replayed ones at unit length"


_MARKED = " The dashed line is at the number of new classes."


class Gradients(Recording):
    """Gram matrices of the gradients with respect to the features that the classifier saw, in the last epoch of a task.

    For perturbed batches, the official code differentiates with respect to unit-length features, so its gradients are
    longer by the norm of the feature; these are recorded as well.
    """

    leads_to, about = "gradient_spectrum", "singular values of feature gradients"
    wants = (
        "new.features.gradient",
        "replay.features",
        "replay.features.gradient",
        "replay.moved",
        "replay.moved.gradient",
    )
    remembers = ("grams",)

    def __init__(self, run: Running) -> None:
        super().__init__(run)
        self.grams: dict[str, Tensor] = {}

    def step(self, record: StepRecord) -> None:
        """Add the gradients of a step."""
        out = record.outputs
        self._add(NEW, out.get("new.features.gradient"))
        replayed, seen = out.get("replay.moved.gradient", out.get("replay.features.gradient")), replayed_as_seen(out)
        self._add(REPLAYED, replayed)
        learner = self.run.trainer.learning.learner
        perturbed = learner.perturbation.moves and not learner.first_task and "replay.moved" in out
        if perturbed and replayed is not None and seen is not None:
            self._add(OFFICIAL, replayed * sphere.norm(seen))

    def _add(self, name: str, rows: Tensor | None) -> None:
        if rows is not None:
            here = gram(rows).cpu()
            self.grams[name] = self.grams[name] + here if name in self.grams else here

    def task(self, record: TaskRecord) -> None:
        """Compute the singular values, for replayed and new rows together and separately."""
        sums = {ALL: [NEW, REPLAYED], REPLAYED: [REPLAYED], NEW: [NEW], OFFICIAL: [NEW, OFFICIAL]}
        found: dict[str, Any] = {"learned": record.learned, "classes": len(self.new)}
        for name, parts in sums.items():
            if all(part in self.grams for part in parts) or (name == ALL and NEW in self.grams):
                total = torch.stack([self.grams[part] for part in parts if part in self.grams]).sum(0)
                found[name] = singular_values(total) if total.isfinite().all() else torch.zeros(len(total)).double()
        self.tasks.append(found)
        self.grams = {}

    def analysis(self) -> Analysis | None:
        """The spectrum of the last task, and the effective rank over the tasks."""
        kinds = [name for name in (ALL, REPLAYED, NEW, OFFICIAL) if self.tasks and name in self.tasks[-1]]
        if not kinds:
            return None
        last = self.tasks[-1]
        ranks = {name: [effective_rank(task[name]) if name in task else None for task in self.tasks] for name in kinds}
        count = min(_SHOWN, len(last[ALL]))
        x, y = Axis("Index", numbered(count)), Axis("Singular value / sum", log=True)
        over_tasks, rank = Axis("Tasks learned", numbered(len(self.tasks))), Axis("Effective rank of feature gradients")
        spectra = {name: shares(last[name])[:count].tolist() for name in kinds}
        return Analysis(
            "Singular values of feature gradients",
            "Each divided by their sum. The faster they fall, the fewer directions the gradients have; the "
            f"effective rank is exp of their entropy.{_MARKED * bool(last['classes'])}",
            {f"effective rank, {name}": ranks[name][-1] for name in kinds},
            {
                "singular_values": Plot("lines", x, y, spectra, mark=last["classes"] or None),
                "effective_rank": Plot("lines", over_tasks, rank, dict(ranks)),
            },
            "recorded",
            {
                f"{name} after task {number}": task[name].numpy()
                for number, task in enumerate(self.tasks, 1)
                for name in kinds
                if name in task
            },
        )
