"""The watcher behind `record`: looks at a few steps of every task, and writes analysis.json when the run ends."""

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
"""New samples that are looked at in the last epoch of a task, at most; as many replayed ones come with them."""
_THROUGH = 25
"""Steps that are looked at over a whole task."""
KINDS: dict[str, type[Recording]] = {
    "angles": Angles,
    "gradients": Gradients,
    "perturbation": Moved,
    "batch_norm": StatisticsShift,
    "lead": LeadTested,
    "rules": RulesTested,
}
"""By what `record` calls them."""


def spread(first: int, last: int, count: int) -> frozenset[int]:
    """At most so many numbers from `first` to `last`, evenly spaced; the last one among them."""
    there = last - first + 1
    return frozenset(last - place * there // min(count, there) for place in range(min(count, there)))


class Recorder(Watcher):
    """Of the steps of a task it looks at some of the last epoch, whole batches all of them, and at some over all of it:
    so few that training is not slowed down."""

    def __init__(self, names: Sequence[str]) -> None:
        self.kinds = [KINDS[name] for name in names if name in KINDS]
        self.wants = tuple(dict.fromkeys(name for kind in self.kinds for name in kind.wants))
        self.looked = -1, frozenset[int](), frozenset[int]()

    def attach(self, run: Running) -> None:
        """Take the run that is to be recorded."""
        self.run, self.recordings = run, [kind(run) for kind in self.kinds]

    def due(self, schedule: Schedule) -> bool:
        """Whether the next step is one of those that are looked at."""
        (late, through), done = self._chosen(schedule), schedule.task_steps_done
        return done in late or done in through

    def _chosen(self, schedule: Schedule) -> tuple[frozenset[int], frozenset[int]]:
        """The steps that are looked at, counted from 0 in the current task: late ones, and those all through it."""
        task, late, through = self.looked
        if task != schedule.task:
            batch = schedule.settings.batch
            whole = max(1, len(schedule.current.train) // batch)
            begin = schedule.task_steps - schedule.batches
            late = spread(begin, begin + whole - 1, -(-_ROWS // batch))
            through = spread(0, schedule.task_steps - 1, _THROUGH)
            self.looked = schedule.task, late, through
        return late, through

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Some steps have been done, all of the current task."""
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
        """A task has been learned; before training nothing is recorded."""
        if record.learned:
            with self.run.trainer.learning.numerics():
                for recording in self.recordings:
                    recording.task(record)

    def save(self) -> None:
        """Write what was found."""
        found = {one.leads_to: analysis for one in self.recordings if (analysis := one.analysis())}
        write(self.run.folder, found)

    def state(self) -> list[Any]:
        """Of each recording."""
        return [recording.state() for recording in self.recordings]

    def load_state_dict(self, states: list[Any]) -> None:
        """Go on from where `states` were taken."""
        for recording, state in zip(self.recordings, states, strict=True):
            recording.load_state_dict(state)
