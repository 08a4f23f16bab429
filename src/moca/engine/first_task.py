"""Runs that begin alike: they differ in nothing that acts in the first task, and share it.

No class is old in it and none leads, so that neither a perturbation nor a number to adjust by does anything. One of
them trains it, the others take it over and go on from there, as if each had trained it by itself.
"""

from __future__ import annotations

import io
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from moca.engine.folder import STEPS, TASKS
from moca.settings import Run
from moca.state import torch_bytes

if TYPE_CHECKING:
    from moca.engine.run import Running

SHARED = "its first task was trained by"
"""How the note of a run begins that took it over."""
SHARED_IN_SHORT = "the first task, which nothing perturbs or adjusts, was trained once; its seconds count in each run"
"""The same of several runs."""
_OWN = "perturbation"
"""What each run keeps of its own, wherever in its state: it has not been asked yet."""


def beginning(run: Run) -> Hashable:
    """What the first task of a run depends on, equal for those that share it; None where that is not known, as parts
    that do not come with moca may do what they like in it."""
    if run.with_own_code:
        return None
    learner, perturbation = run.learner.make(), run.perturb.make()
    official = learner.official_passes(perturbation) if run.bn_passes == "official" else None
    passes = official and (official.first_task, official.without_replay)
    return run.model_dump_json(exclude={"perturb": True, "learner": {"adjust"}}), learner.holds_out, passes


class FirstTask:
    """The first task of some runs that begin alike, once one of them has trained it."""

    def __init__(self) -> None:
        self.to_come: set[Path] = set()
        """The folders of the runs that have not begun; it is kept no longer than there are any."""
        self.kept = b""
        self.lines: dict[str, bytes] = {}
        self.trained_by: Path | None = None
        """The folder of the run that is at it."""

    @property
    def lets_begin(self) -> bool:
        """Whether another run can begin: with the task done, or because nobody is at it."""
        return bool(self.kept) or self.trained_by is None

    def begin(self, run: Running) -> None:
        """A run begins or goes on: if that is in the task, it takes it over, or trains it for the others."""
        if run.trainer.schedule.task == 0:
            if self.kept:
                self._hand_over(run)
            else:
                self.trained_by = run.folder.path
        self.drop(run.folder.path)

    def drop(self, folder: Path) -> None:
        """The run of a folder waits for it no longer: it has it, or was done before."""
        self.to_come.discard(folder)
        if not self.to_come:
            self.kept, self.lines = b"", {}

    def leave(self, run: Running) -> None:
        """A run has ended, or was given up: if it was to train the task, another one may."""
        if self.trained_by == run.folder.path:
            self.trained_by = None

    def keep(self, run: Running) -> None:
        """A run stands at the beginning of its second task."""
        if self.trained_by != run.folder.path:
            return
        self.trained_by = None
        if self.to_come:
            self.kept, self.name = bytes(torch_bytes(run.state())), run.folder.path.name
            self.lines = {name: (run.folder.path / name).read_bytes() for name in (STEPS, TASKS)}

    def _hand_over(self, run: Running) -> None:
        state = torch.load(io.BytesIO(self.kept), weights_only=True, map_location=run.trainer.learning.device)
        own = run.state()
        run.advance(-run.steps_done, "takes over")  # what it had trained of the task by itself
        run.load_state_dict(_with_own(state, own) | {"settings": own["settings"], "shared_with": self.name})
        for name, lines in self.lines.items():
            (run.folder.path / name).write_bytes(lines)
        run.folder.save_checkpoint(run.state())


def _with_own(state: Any, own: Any) -> Any:
    """A nested state with this run's own perturbation in it."""
    if not isinstance(state, dict):
        return state
    return {name: own[name] if name == _OWN else _with_own(part, own.get(name) if isinstance(own, dict) else None)
            for name, part in state.items()}  # fmt: skip
