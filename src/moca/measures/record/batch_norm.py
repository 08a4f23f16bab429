"""Distances between the BatchNorm statistics of old, new and test images, after every task."""

from __future__ import annotations

from typing import Any

import torch

from moca.engine.watch import TaskRecord
from moca.measures.analysis import Analysis, Axis, Plot, numbered
from moca.measures.batch_norm import Estimates, Moments, Statistics, averaged, layers_moved
from moca.measures.record.base import Recording
from moca.measures.shift import distance

_BATCHES = 2, 20
"""The least and largest number of batches of each kind after a task; in between, one for every 50 steps."""
OLD_NEW, HELD_OLD, HELD_NEW = "replayed and new", "running and test of old classes", "running and test of new classes"


class StatisticsShift(Recording):
    """Distances between the statistics of replayed and new batches, and between the running statistics and those of
    test images of old and of new classes."""

    leads_to, about = "batch_norm_shift", "BatchNorm statistics against each other"
    of_batch_norm = True

    def task(self, record: TaskRecord) -> None:
        """Compute the distances in every layer."""
        learning = self.run.trainer.learning
        layers: dict[str, Any] = layers_moved(learning.model)
        if not layers:
            return
        batches = min(max(self.run.trainer.schedule.task_steps // 50, _BATCHES[0]), _BATCHES[1])
        estimates = Estimates(self.run.trainer, batches)
        held: Statistics = {name: Moments(layer.running_mean, layer.running_var) for name, layer in layers.items()}
        test = {of: self._of_test(those, batches) for of, those in (("old", self.old), ("new", self.new))}
        pairs = {HELD_OLD: (held, test["old"]), HELD_NEW: (held, test["new"])}
        if estimates.stores and not learning.learner.first_task:
            pairs = {OLD_NEW: (estimates.replayed, estimates.new)} | pairs
        apart = {name: [distance(a[layer], b[layer]) for layer in layers] for name, (a, b) in pairs.items() if a and b}
        self.tasks.append({"learned": record.learned, "layers": list(layers), "apart": apart})

    def _of_test(self, classes: list[int], batches: int) -> Statistics:
        """The statistics of so many batches of test images, spread evenly over these classes."""
        stream, learner, batch = self.run.stream, self.run.trainer.learning.learner, self.run.settings.batch
        index = torch.cat([task.test for task in stream]).unique()
        index = index[torch.isin(stream.test.labels[index], torch.tensor(classes, dtype=torch.int64))]
        if not len(index):
            return {}
        spread = torch.linspace(0, len(index) - 1, min(len(index), batches * batch)).long()
        count = -(-len(spread) // batch)
        parts = [index[spread[start::count]] for start in range(count)]  # interleaved, so each batch spans all classes
        device, model = self.run.trainer.learning.device, self.run.trainer.learning.model
        return averaged(model, (learner.view(stream.test.images[part].to(device)) for part in parts if len(part) > 1))

    def analysis(self) -> Analysis | None:
        """Distances by layer after the last task, and their mean over layers after every task."""
        if not self.tasks or not self.tasks[-1]["apart"]:
            return None
        last = self.tasks[-1]
        names = [name for name in (OLD_NEW, HELD_OLD, HELD_NEW) if any(name in task["apart"] for task in self.tasks)]

        def mean(task: dict[str, Any], name: str) -> float | None:
            layers = task["apart"].get(name)
            return sum(layers) / len(layers) if layers else None

        layer, learned = numbered(len(last["layers"])), [task["learned"] for task in self.tasks]
        x, over_tasks = Axis("BatchNorm layer, from the image on", layer), Axis("Tasks learned", learned)
        y, means = Axis("Distance of the statistics"), {n: [mean(task, n) for task in self.tasks] for n in names}
        return Analysis(
            "BatchNorm statistics against each other",
            "Root mean square over channels of how far means and standard deviations are apart, in standard "
            "deviations; 0 is the same.",
            {f"mean distance, {name}": mean(last, name) for name in last["apart"]},
            {
                "batch_norm_shift": Plot("lines", x, y, last["apart"]),
                "batch_norm_shift_over_tasks": Plot("lines", over_tasks, y, means),
            },
            "recorded",
        )
