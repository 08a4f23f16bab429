"""Reports steps to watchers in groups, so that there is no GPU sync after each step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from moca.engine.learning import Step
from moca.engine.schedule import Schedule
from moca.engine.watch import StepRecord, Watcher

_GROUP = {"cpu": 50, "cuda": 500}
"""Steps reported together, by device type; steps with outputs, which take memory, in groups as on a CPU."""


class StepReports:
    """Collects the steps of a run, and reports them to its watchers in groups."""

    def __init__(self, watchers: Sequence[Watcher], device: torch.device) -> None:
        self.watchers, self.most, self.with_outputs = watchers, _GROUP[device.type], 0
        self.waiting: list[tuple[tuple[int, int, int, float], Step]] = []

    def add(self, schedule: Schedule, step: Step) -> None:
        """Add a finished step; a full group is reported."""
        place = (schedule.steps_done, schedule.task, schedule.epoch, schedule.learning_rate)
        self.waiting.append((place, step))
        self.with_outputs += bool(step.outputs)
        if len(self.waiting) == self.most or self.with_outputs == _GROUP["cpu"]:
            self.flush()

    def flush(self) -> None:
        """Read the losses of all waiting steps from the device in one sync, and report them to all watchers."""
        if not self.waiting:
            return
        values = iter(torch.stack([loss for _, step in self.waiting for loss in step.losses.values()]).tolist())
        records = [
            StepRecord(*place, {name: next(values) for name in step.losses}, step.outputs)
            for place, step in self.waiting
        ]
        self.waiting, self.with_outputs = [], 0
        for watcher in self.watchers:
            watcher.steps(records)
