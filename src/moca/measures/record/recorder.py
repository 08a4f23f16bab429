"""The watcher behind `record`: samples a few steps of every task, and writes analysis.json when the run ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moca.engine.schedule import Schedule
from moca.engine.watch import StepRecord, TaskRecord, Watcher
from moca.measures.analysis import write
from moca.measures.record.angles import Angles
from moca.measures.record.base import Recording
from moca.measures.record.batch_norm import StatisticsShift
from moca.measures.record.gradients import Gradients
from moca.measures.record.lead import LeadTested
from moca.measures.record.perturbation import Moved
from moca.measures.record.rules import RulesTested

if TYPE_CHECKING:
    from moca.engine.run import Running

_ROWS = 4096
"""The largest number of new samples to record in the last epoch of a task; as many replayed ones come with them."""
_THROUGH = 25
"""The number of steps to record over a whole task."""
KINDS: dict[str, type[Recording]] = {
    "angles": Angles,
    "gradients": Gradients,
    "perturbation": Moved,
    "batch_norm": StatisticsShift,
    "lead": LeadTested,
    "rules": RulesTested,
}
"""Recordings by their names in `record`."""


def spread(first: int, last: int, count: int) -> frozenset[int]:
    """At most `count` numbers from `first` to `last`, evenly spaced and including the last."""
    available = last - first + 1
    return frozenset(last - place * available // min(count, available) for place in range(min(count, available)))


class Recorder(Watcher):
    """Passes some steps of each task to the recordings: full batches of its last epoch, and steps spread over the whole
    task; so few that training is not slowed down."""

    def __init__(self, names: Sequence[str]) -> None:
        self.kinds = [KINDS[name] for name in names if name in KINDS]
        self.wants = tuple(dict.fromkeys(name for kind in self.kinds for name in kind.wants))
        self.looked = -1, frozenset[int](), frozenset[int]()

    def attach(self, run: Running) -> None:
        """Set the run to record."""
        self.run, self.recordings = run, [kind(run) for kind in self.kinds]

    def due(self, schedule: Schedule) -> bool:
        """Whether the next step is recorded."""
        (late, through), done = self._chosen(schedule), schedule.task_steps_done
        return done in late or done in through

    def _chosen(self, schedule: Schedule) -> tuple[frozenset[int], frozenset[int]]:
        """The steps to record, counted from 0 in the current task: some of its last epoch, and some over all of it."""
        task, late, through = self.looked
        if task != schedule.task:
            batch = schedule.settings.batch
            full_batches = max(1, len(schedule.current.train) // batch)
            begin = schedule.task_steps - schedule.batches
            late = spread(begin, begin + full_batches - 1, -(-_ROWS // batch))
            through = spread(0, schedule.task_steps - 1, _THROUGH)
            self.looked = schedule.task, late, through
        return late, through

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Receive steps, all of the current task."""
        schedule = self.run.trainer.schedule
        late, through = self._chosen(schedule)
        before = schedule.steps_done - schedule.task_steps_done
        with self.run.trainer.learning.numerics():
            for record in records:
                place = record.step - 1 - before
                for recording in self.recordings if record.outputs else ():
                    if place in (late if recording.looks == "late" else through):
                        recording.step(record)

    def task(self, record: TaskRecord) -> None:
        """Receive the test after a task; nothing is recorded before training."""
        if record.learned:
            with self.run.trainer.learning.numerics():
                for recording in self.recordings:
                    recording.task(record)

    def save(self) -> None:
        """Write analysis.json."""
        found = {one.leads_to: analysis for one in self.recordings if (analysis := one.analysis())}
        write(self.run.folder, found)

    def state(self) -> list[Any]:
        """The state of each recording."""
        return [recording.state() for recording in self.recordings]

    def load_state_dict(self, states: list[Any]) -> None:
        """Restore the state of each recording."""
        for recording, state in zip(self.recordings, states, strict=True):
            recording.load_state_dict(state)
