"""A first task shared by several runs, because nothing in which they differ has an effect in it.

In the first task no class is old and none leads, so neither a perturbation nor a fixed `adjust` does anything. One run
trains it, and the others continue from its state, exactly as if each had trained it alone.
"""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from moca.engine.folder import STEPS, TASKS
from moca.errors import Held, MocaError
from moca.settings import Run
from moca.state import torch_bytes

if TYPE_CHECKING:
    from moca.engine.run import Running

SHARED = "its first task was trained by"
"""The start of the note of a run that took over its first task."""
SHARED_IN_SHORT = (
    "shares its first task with other runs, in which nothing is perturbed or adjusted; its seconds count in each run"
)
"""The note for several runs."""
_OWN = "perturbation"
"""The key, anywhere in the state, that each run keeps for itself: its perturbation has not been used yet."""


def beginning(run: Run) -> Hashable:
    """A key for everything that the first task of a run depends on, equal for runs that can share it; None for runs
    with user code, which may do anything."""
    if run.with_own_code:
        return None
    learner, perturbation = run.learner.make(), run.perturb.make()
    official = learner.official_passes(perturbation) if run.bn_passes == "official" else None
    passes = official and (official.first_task, official.without_replay)
    return run.model_dump_json(exclude={"perturb": True, "learner": {"adjust"}}), learner.holds_out, passes


class FirstTask:
    """The first task of runs that share it, once one of them has trained it."""

    def __init__(self) -> None:
        self.to_come: set[Path] = set()
        """The folders of the runs that have not started; the state is dropped once there are none."""
        self.saved_state = b""
        """The saved state of the run that trained the task; empty until then."""
        self.name = ""
        """The name of that run."""
        self.lines: dict[str, bytes] = {}
        """The contents of that run's journal files."""
        self.trained_by: Path | None = None
        """The folder of the run that is training the task now."""

    @property
    def lets_begin(self) -> bool:
        """Whether another run can start: the task has been trained, or no run is training it."""
        return bool(self.saved_state) or self.trained_by is None

    @contextmanager
    def opening(self, folder: Path) -> Iterator[None]:
        """Wraps the opening of a run. If that fails, it no longer waits, unless another process holds it or memory is
        short, when it will be opened again."""
        try:
            yield
        except Held:
            raise
        except MocaError:
            self.drop(folder)
            raise

    def begin(self, run: Running) -> None:
        """Called when a run starts or resumes: within its first task, it takes the task over, or trains it for the
        others."""
        if run.trainer.schedule.task == 0:
            if self.saved_state:
                self._hand_over(run)
            else:
                self.trained_by = run.folder.path
        self.drop(run.folder.path)

    def drop(self, folder: Path) -> None:
        """Note that the run of a folder no longer waits: it has taken the task over, was done before, or cannot be
        opened."""
        self.to_come.discard(folder)
        if not self.to_come:
            self.saved_state, self.lines = b"", {}

    def leave(self, run: Running) -> None:
        """Called when a run has ended or was given up: if it was training the task, another run may."""
        if self.trained_by == run.folder.path:
            self.trained_by = None

    def keep(self, run: Running) -> None:
        """Called when a run is at the start of its second task: save its state for the others if it trained the task
        for them."""
        if self.trained_by != run.folder.path:
            return
        self.trained_by = None
        if self.to_come:
            self.saved_state, self.name = bytes(torch_bytes(run.state())), run.folder.path.name
            self.lines = {name: (run.folder.path / name).read_bytes() for name in (STEPS, TASKS)}

    def _hand_over(self, run: Running) -> None:
        state = torch.load(io.BytesIO(self.saved_state), weights_only=True, map_location=run.trainer.learning.device)
        own = run.state()
        run.advance(-run.steps_done, "takes over")  # take back the steps of the task that it had trained itself
        run.load_state_dict(_with_own(state, own) | {"settings": own["settings"], "shared_with": self.name})
        for name, lines in self.lines.items():
            (run.folder.path / name).write_bytes(lines)
        run.folder.save_checkpoint(run.state())


def _with_own(state: Any, own: Any) -> Any:
    """A nested state with the perturbation's state replaced by this run's own."""
    if not isinstance(state, dict):
        return state
    return {name: own[name] if name == _OWN else _with_own(part, own.get(name) if isinstance(own, dict) else None)
            for name, part in state.items()}  # fmt: skip
