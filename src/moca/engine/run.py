"""A run from settings to result: train each task, test all of them, keep everything in the run's folder."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from moca.engine.evaluate import Stopped, evaluate
from moca.engine.first_task import FirstTask
from moca.engine.folder import RESULT, RunFolder, described
from moca.engine.interrupt import Interrupt
from moca.engine.journal import Journal
from moca.engine.notes import notes
from moca.engine.result import Result, Status
from moca.engine.step_reports import StepReports
from moca.engine.tested import Tested, mean_over
from moca.engine.trainer import Trainer
from moca.engine.watch import Advance, Guard, Progress, Watcher
from moca.environment import environment
from moca.errors import Diverged, MocaError
from moca.settings import Run
from moca.streams import Stream

if TYPE_CHECKING:
    from moca.measures.record.recorder import Recorder


def recorder_of(settings: Run) -> Recorder | None:
    """What records a run that is to be recorded."""
    if not settings.record:
        return None
    from moca.measures.record.recorder import Recorder

    return Recorder(settings.record)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def refuse_ended(out: Path) -> None:
    """A run that has ended cannot go on."""
    if (out / RESULT).is_file():
        raise MocaError(f"run '{out}' cannot be resumed: it has {Result.load(out).status}")


class Running:
    """A run under way: the trainer, what has been measured, and those who watch."""

    result: Result
    """What the run found out, once it has ended."""
    images_before = 0
    """Trained on by earlier attempts."""
    packed = 1
    """Most runs that took turns at a time, this one included."""
    task_ended = False
    """Whether the learner has been told that the current task is over."""
    shared_with = ""
    """The run that its first task was trained by, if not by itself."""
    started = ""
    """When it was begun first, in UTC."""

    def __init__(
        self,
        settings: Run,
        stream: Stream,
        advance: Advance | None = None,
        keep_model: bool = False,
        watchers: Sequence[Watcher] = (),
        first_task: FirstTask | None = None,
    ) -> None:
        """The settings leave nothing open. `start` or `resume` then gives the run its folder."""
        self.settings, self.stream, self.keep_model = settings, stream, keep_model
        self.first_task = first_task or FirstTask()
        self.recorder = recorder_of(settings)
        watchers = [*watchers, *([self.recorder] if self.recorder else [])]
        self.asking = [watcher for watcher in watchers if watcher.wants]
        self.trainer = Trainer(settings, stream, [name for watcher in watchers for name in watcher.wants])
        self.advance = advance or (lambda steps, where: None)
        self.watchers = [Journal(), *watchers, Progress(self.advance), Guard()]
        self.tested = Tested(self.trainer.schedule)
        self.seconds = 0.0
        self.step_reports = StepReports(self.watchers, self.trainer.learning.device)
        if self.recorder:
            self.recorder.attach(self)

    def start(self, out: Path) -> Self:
        """A new run, in a fresh folder."""
        self.folder, self.started = RunFolder.create(out, self.settings), _now()
        with self._holding_the_folder():
            self.first_task.begin(self)
        return self

    def resume(self, out: Path) -> Self:
        """An interrupted run, exactly where it stopped; from the beginning if that was before its first checkpoint."""
        self.folder = RunFolder.open(out)
        self.folder.claim()
        with self._holding_the_folder():
            refuse_ended(out)
            kept = self.folder.load_checkpoint(self.trainer.learning.device)
            if kept is not None:
                self.load_state_dict(kept)
            self.started = (kept or {}).get("started") or _now()
            self.first_task.begin(self)
        return self

    @contextmanager
    def _holding_the_folder(self) -> Iterator[None]:
        """Inside, others may write there again only if something fails."""
        try:
            yield
        except BaseException:
            self.folder.release()
            raise

    @property
    def steps_done(self) -> int:
        """Since the run began."""
        return self.trainer.schedule.steps_done

    def steps(self, interrupt: Interrupt) -> Iterator[None]:
        """Train to the end, to divergence or to an interruption; `result` is there afterwards."""
        for watcher in self.watchers:
            watcher.begin(self)
        try:
            if not self.tested.class_il:
                self._evaluate(interrupt)
            while True:
                yield from self._train_task(interrupt)
                if interrupt.requested:
                    raise Stopped  # the end of the task, where it has come, is still to be told
                if not self.task_ended:
                    self.trainer.end_task()
                    self.task_ended = True
                self._evaluate(interrupt)
                self.task_ended = False
                if not self.trainer.next_task():
                    break
                self.folder.save_checkpoint(self.state())
                self.first_task.keep(self)
        except Diverged as error:
            self._ended("diverged", str(error))
            return
        except Stopped:
            self._interrupted()
            return
        if self.keep_model or "weights" in self.settings.record:
            self._save_model()
        self._ended("finished")

    def _train_task(self, interrupt: Interrupt) -> Iterator[None]:
        schedule, every, begun = self.trainer.schedule, self.settings.evaluate_every, time.perf_counter()
        try:
            self._ask()
            for step in self.trainer.steps():
                self.step_reports.add(schedule, step)
                self._ask()
                if every and schedule.steps_done % every == 0:
                    self._look()
                if interrupt.requested:
                    break
                yield
            self.step_reports.flush()
        finally:
            self.seconds += time.perf_counter() - begun

    def _ask(self) -> None:
        """Whether anybody wants the outputs of the next step."""
        if self.asking:
            schedule = self.trainer.schedule
            self.trainer.learning.outputs.due = any(watcher.due(schedule) for watcher in self.asking)

    def _evaluate(self, interrupt: Interrupt) -> None:
        learning = self.trainer.learning
        self.advance(0, "testing")
        with learning.numerics():
            accuracies = evaluate(learning.model, learning.predict, self.stream, lambda: interrupt.requested)
        record = self.tested.add(accuracies, self.seconds)
        for watcher in self.watchers:
            watcher.task(record)

    def _look(self) -> None:
        """The mean accuracy over the tasks begun so far, in the middle of one; its time does not count."""
        schedule, learning, begun = self.trainer.schedule, self.trainer.learning, time.perf_counter()
        tasks = self.tested.first(schedule.task + 1)
        with learning.numerics():
            accuracies = evaluate(learning.model, learning.predict, tasks).class_il
        self.tested.over_stream.append([schedule.steps_done, mean_over(tasks, accuracies)])
        self.seconds -= time.perf_counter() - begun

    def _save_model(self) -> None:
        learning, stream, frozen = self.trainer.learning, self.stream, self.stream.dataset.frozen
        about = described(learning.settings, stream.names[: learning.classes], stream.protocol, stream.shape, frozen)
        self.folder.save_model(learning.state() | ({"frozen": frozen.state()} if frozen else {}), about)

    def _interrupted(self) -> None:
        self.folder.save_checkpoint(self.state())
        path = str(self.folder.path)
        again = ", ".join([repr(path), *(f"{name}=..." for name in self.settings.own_objects)])
        go_on = f"moca.resume({again})" if self.settings.in_python_only else f"moca resume {shlex.quote(path)}"
        self._ended("interrupted", f"stopped after step {self.steps_done}; go on with: {go_on}")

    def _ended(self, status: Status, message: str = "") -> None:
        trained = self.trainer.learning.images_trained
        self.result = Result(
            self.settings,
            self.folder.path,
            status,
            message,
            accuracy_matrix=self.tested.class_il,
            task_il_matrix=self.tested.task_il,
            steps=self.steps_done,
            seconds=self.seconds,
            images_per_second=trained / max(self.seconds, 1e-9),
            environment=self._environment(),
            notes=notes(self, status == "finished"),
            images_this_time=trained - self.images_before,
            task_classes=[len(task.tested) for task in self.stream],
            over_stream=self.tested.over_stream,
            started=self.started,
            class_names=list(self.stream.names),
        )
        if status == "interrupted":
            self.folder.release()
        else:
            if self.recorder:
                self.recorder.save()
            self.result.save()
            self.folder.finish()
        self.first_task.leave(self)
        for watcher in self.watchers:
            watcher.end(self.result)

    def _environment(self) -> dict[str, Any]:
        learning = self.trainer.learning
        with learning.numerics():
            found = environment(learning.device) | ({"packed": self.packed} if self.packed > 1 else {})
        return found | {"data": self.stream.dataset.fingerprint}

    def give_up(self) -> None:
        """Leave without a result; `resume` goes on from the last checkpoint, so that the steps since do not count."""
        self.advance(len(self.step_reports.waiting) - self.steps_done, "waits")
        self.first_task.leave(self)
        self.folder.release()

    def state(self) -> dict[str, Any]:
        """The trainer's state itself, to be written before the run goes on, and what has been measured so far."""
        return {
            "trainer": self.trainer.state(),
            "class_il": self.tested.class_il,
            "task_il": self.tested.task_il,
            "over_stream": self.tested.over_stream,
            "seconds": self.seconds,
            "started": self.started,
            "shared_with": self.shared_with,
            "task_ended": self.task_ended,
            "recorded": self.recorder.state() if self.recorder else [],
            "data": self.stream.dataset.fingerprint,
            # It may go on elsewhere, but as what it was.
            "settings": self.settings.model_dump(
                mode="json", by_alias=True, exclude={"data", "data_dir", "device", "threads"}
            ),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        if state.get("data", self.stream.dataset.fingerprint) != self.stream.dataset.fingerprint:
            raise MocaError(
                f"the images of '{self.settings.data}' have changed since run '{self.folder.path}' stopped; "
                "bring the old ones back, or begin a new run"
            )
        before = state.get("settings", {})
        now = self.settings.model_dump(mode="json", by_alias=True)
        changed = [name for name, value in before.items() if now.get(name) != value]
        if changed:
            raise MocaError(
                f"the settings of run '{self.folder.path}' have changed since it stopped ({', '.join(changed)}); bring "
                "the old ones back, or begin a new run"
            )
        try:
            self.trainer.load_state_dict(state["trainer"])
            self.tested.over_stream, self.shared_with = state["over_stream"], state["shared_with"]
            self.task_ended = state["task_ended"]
            if self.recorder:
                self.recorder.load_state_dict(state["recorded"])
        except KeyError:
            raise MocaError(
                f"run '{self.folder.path}' was stopped by an older moca, whose checkpoints this one cannot read; go on "
                "with that version, or begin a new run"
            ) from None
        self.tested.class_il, self.tested.task_il = state["class_il"], state["task_il"]
        self.seconds, self.images_before = state["seconds"], self.trainer.learning.images_trained
        self.advance(self.steps_done, "resumed")
