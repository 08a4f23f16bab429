"""What every recording is: told about some steps and every test, it keeps little, and at the end has an analysis."""

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
    """One kind of thing to be recorded. What it found in each task is in `tasks`, of plain values and tensors."""

    leads_to: ClassVar[str]
    """The name of its analysis."""
    about: ClassVar[str]
    """What that is about, in a few words."""
    of_batch_norm: ClassVar[bool] = False
    """Whether there is something to be recorded only where the encoder has BatchNorm."""
    wants: ClassVar[Sequence[str]] = ()
    """Outputs of a step."""
    looks: ClassVar[Literal["late", "through"]] = "late"
    """At steps spread over the last epoch of a task, or over all of it."""
    remembers: ClassVar[tuple[str, ...]] = ("tasks",)

    def __init__(self, run: Running) -> None:
        self.run, self.tasks = run, list[dict[str, Any]]()

    def step(self, record: StepRecord) -> None:
        """One of the steps that are looked at has been done."""

    def task(self, record: TaskRecord) -> None:
        """A task has been learned."""

    def analysis(self) -> Analysis | None:
        """What came of it, if anything did."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken; a checkpoint is read to the run's device."""
        super().load_state_dict(on("cpu", state))

    @property
    def old(self) -> list[int]:
        """Classes of earlier tasks; of joint training, those of all tasks of the stream but the last."""
        schedule, stream = self.run.trainer.schedule, self.run.stream
        if schedule.joint:
            return sorted({c for task in stream[:-1] for c in task.classes} - set(stream[-1].classes))
        return list(self.run.trainer.learning.learner.old.nonzero().flatten().tolist())

    @property
    def new(self) -> list[int]:
        """Classes that came, and are not old."""
        came = self.run.trainer.learning.learner.seen.nonzero().flatten().tolist()
        return sorted(set(came) - set(self.old))


def of_classes(rows: Tensor, y: Tensor, outputs: int) -> tuple[Tensor, Tensor]:
    """The rows of the classes themselves with their labels, where a learner has several outputs a class (rotations)."""
    if outputs == 1:
        return rows, y
    own = y % outputs == 0
    return rows[own], y[own] // outputs


def replayed_as_seen(outputs: dict[str, Tensor]) -> Tensor | None:
    """The replayed features as the classifier saw them; None where nothing was replayed."""
    return outputs.get("replay.moved", outputs.get("replay.features"))
