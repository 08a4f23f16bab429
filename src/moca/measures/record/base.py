"""The base class of recordings: they receive some steps and every task's test, and end in an analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor

from moca.engine.watch import StepRecord, TaskRecord
from moca.state import Stateful, on

if TYPE_CHECKING:
    from moca.engine.run import Running
    from moca.measures.analysis import Analysis


class Recording(Stateful):
    """One kind of recording. Its findings of each task are in `tasks`, as plain values and tensors."""

    leads_to: ClassVar[str]
    """The name of its analysis."""
    about: ClassVar[str]
    """The analysis in a few words."""
    of_batch_norm: ClassVar[bool] = False
    """Whether it needs an encoder with BatchNorm."""
    wants: ClassVar[Sequence[str]] = ()
    """The outputs of a step that it needs."""
    looks: ClassVar[Literal["late", "through"]] = "late"
    """Which steps it receives: spread over the last epoch of a task, or over the whole task."""
    remembers: ClassVar[tuple[str, ...]] = ("tasks",)

    def __init__(self, run: Running) -> None:
        self.run, self.tasks = run, list[dict[str, Any]]()

    def step(self, record: StepRecord) -> None:
        """Called after each of the chosen steps."""

    def task(self, record: TaskRecord) -> None:
        """Called after a task has been learned and tested."""

    def analysis(self) -> Analysis | None:
        """The analysis of what was recorded; None if there was nothing to record."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state, moving tensors to the CPU: a checkpoint is loaded to the run's device."""
        super().load_state_dict(on("cpu", state))

    @property
    def old(self) -> list[int]:
        """Classes of earlier tasks; in joint training, those of all tasks of the stream but the last."""
        schedule, stream = self.run.trainer.schedule, self.run.stream
        if schedule.joint:
            return sorted({c for task in stream[:-1] for c in task.classes} - set(stream[-1].classes))
        return list(self.run.trainer.learning.learner.old.nonzero().flatten().tolist())

    @property
    def new(self) -> list[int]:
        """Classes seen so far that are not old."""
        came = self.run.trainer.learning.learner.seen.nonzero().flatten().tolist()
        return sorted(set(came) - set(self.old))


def of_classes(rows: Tensor, y: Tensor, outputs: int) -> tuple[Tensor, Tensor]:
    """The rows of the classes themselves, with their labels, if a learner has several outputs per class (rotations)."""
    if outputs == 1:
        return rows, y
    own = y % outputs == 0
    return rows[own], y[own] // outputs


def replayed_as_seen(outputs: dict[str, Tensor]) -> Tensor | None:
    """The replayed features as the classifier saw them; None if nothing was replayed."""
    return outputs.get("replay.moved", outputs.get("replay.features"))
