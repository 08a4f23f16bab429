"""Watchers are told about steps in groups, so that a GPU is not waited for after each."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from moca.engine.learning import Step
from moca.engine.schedule import Schedule
from moca.engine.watch import StepRecord, Watcher

_GROUP = {"cpu": 50, "cuda": 500}
"""Steps that are told together; of steps with outputs, which take room, no more than on a CPU."""


class StepReports:
    """The steps of a run that its watchers have not been told about."""

    def __init__(self, watchers: Sequence[Watcher], device: torch.device) -> None:
        self.watchers, self.most, self.with_outputs = watchers, _GROUP[device.type], 0
        self.waiting: list[tuple[tuple[int, int, int, float], Step]] = []

    def add(self, schedule: Schedule, step: Step) -> None:
        """A step has been done; where the group is full, it is told."""
        place = (schedule.steps_done, schedule.task, schedule.epoch, schedule.learning_rate)
        self.waiting.append((place, step))
        self.with_outputs += bool(step.outputs)
        if len(self.waiting) == self.most or self.with_outputs == _GROUP["cpu"]:
            self.flush()

    def flush(self) -> None:
        """Read the losses of all steps that wait from the device, once for all who watch."""
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
