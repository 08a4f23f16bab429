"""The trainer: feeds the batches of a schedule to learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from moca.batch import Batch
from moca.engine.capture import CapturedStep
from moca.engine.device import captures, check_execution
from moca.engine.feed import Feed
from moca.engine.learning import Learning, Step
from moca.engine.schedule import Schedule
from moca.settings import Run
from moca.state import Stateful
from moca.streams import Stream


class Trainer(Stateful):
    """Trains a run task by task: iterate over `steps()`, then call `end_task` and `next_task`.

    Between any two steps, `state_dict` holds everything needed to resume.
    """

    remembers = ("schedule", "learning")

    def __init__(
        self, settings: Run, stream: Stream, outputs: Sequence[str] = (), learning: Learning | None = None
    ) -> None:
        """If `learning` is given, training continues with it; the labels of the stream must continue its labels."""
        check_execution(settings)
        self.settings = settings
        self.schedule = Schedule(settings, stream)
        self.learning = learning or Learning(
            settings, stream.protocol, stream.shape, self._classes(), self.schedule.offered, outputs
        )
        self.learning.grow(self._classes())
        self.feed = Feed(stream.train, self.learning.device, settings.batch)
        capturing = captures(settings, self.learning.device)
        self.captured = CapturedStep(self.learning, self.feed) if capturing else None
        self.learning.begin_task(self.schedule.current)
        self.learning.state()  # a part that lists a missing attribute in `remembers` fails now, not at a checkpoint

    def steps(self) -> Iterator[Step]:
        """Train the current task from the current position to its end, yielding after each step."""
        learning, schedule, batch = self.learning, self.schedule, self.settings.batch
        learning.model.train()
        for order in schedule.epochs_left(self.feed.order_device):
            learning.lr.fill_(schedule.learning_rate)
            learning.offers = schedule.offers
            for index in schedule.batches_left(order):
                recurs = len(index) == batch or self.settings.epochs > 1
                with learning.numerics(), learning.drawing():
                    done = self.captured(index) if self.captured and recurs else learning.step(*self.feed(index))
                schedule.advance()
                yield done

    def end_task(self) -> None:
        """Finish the current task; call it once, after its last step.

        A learner that does nothing at the end of a task is not given its samples, which may be many. The images stay on
        the device of the feed.
        """
        task, learning = self.schedule.current, self.learning
        samples = self._samples(task.train) if learning.learner.ends_tasks else None
        held = self._samples(task.held) if learning.held is not None else None
        if samples is not None or held is not None:
            with learning.numerics(), learning.drawing():
                learning.end_task(samples, held)

    def _samples(self, index: Tensor) -> Batch:
        images, labels = self.feed.images, self.feed.labels
        return Batch(image=images[index.to(images.device)], y=labels[index.to(labels.device)])

    def next_task(self) -> bool:
        """Advance to the next task; False after the last one."""
        more = self.schedule.next_task()
        if more:
            self.learning.grow(self._classes())
            self.learning.begin_task(self.schedule.current)
            self._drop_stale_graphs()
        return more

    def _classes(self) -> int:
        """How many classes the head needs."""
        if self.settings.classes == "known":
            return self.schedule.stream.classes
        return 1 + max(c for task in self.schedule.tasks[: self.schedule.task + 1] for c in task.classes)

    def _drop_stale_graphs(self) -> None:
        if self.captured:
            self.captured.forget(self.schedule.sizes)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        super().load_state_dict(state)
        self._drop_stale_graphs()
