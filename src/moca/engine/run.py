"""A run from settings to result: train each task, test all of them, and write everything to the run's folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from moca.engine.evaluate import evaluate
from moca.engine.first_task import FirstTask
from moca.engine.folder import RESULT, RunFolder, described
from moca.engine.interrupt import Interrupt
from moca.engine.journal import Journal
from moca.engine.notes import notes
from moca.engine.progress import RESUMED
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
    """The recorder of a run; None if it records nothing."""
    if not settings.record:
        return None
    from moca.measures.record.recorder import Recorder

    return Recorder(settings.record)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def refuse_ended(out: Path) -> None:
    """Raise a `MocaError` for a run that has ended, which cannot be resumed."""
    if (out / RESULT).is_file():
        raise MocaError(f"run '{out}' cannot be resumed: it has {Result.load(out).status}")


class Stopped(Exception):
    """Raised when a stop is requested between steps or in the middle of a test."""


class Running:
    """A run in progress: the trainer, the accuracies so far, and the watchers."""

    result: Result
    """The result, once the run has ended."""
    images_before = 0
    """Images trained on before the run was last opened."""
    packed = 1
    """Most runs that took turns at the same time, including this one."""
    task_ended = False
    """Whether `Trainer.end_task` has been called for the current task."""
    shared_with = ""
    """The name of the run that trained the first task, if another one did."""
    started = ""
    """When it was first started, in UTC."""

    def __init__(
        self,
        settings: Run,
        stream: Stream,
        advance: Advance | None = None,
        keep_model: bool = False,
        watchers: Sequence[Watcher] = (),
        first_task: FirstTask | None = None,
    ) -> None:
        """Build the trainer from complete settings. Call `start` or `resume` next, which set the folder."""
        self.settings, self.stream, self.keep_model = settings, stream, keep_model
        self.own_code = settings.own_code  # as it is now: files may be edited while the run trains
        self.first_task = first_task or FirstTask()
        self.recorder = recorder_of(settings)
        watchers = [*watchers, *([self.recorder] if self.recorder else [])]
        self.output_watchers = [watcher for watcher in watchers if watcher.wants]
        self.trainer = Trainer(settings, stream, [name for watcher in watchers for name in watcher.wants])
        self.advance = advance or (lambda steps, where: None)
        self.watchers = [Journal(), *watchers, Progress(self.advance), Guard()]
        self.tested = Tested(self.trainer.schedule)
        self.seconds = 0.0
        self.step_reports = StepReports(self.watchers, self.trainer.learning.device)
        if self.recorder:
            self.recorder.attach(self)

    def start(self, out: Path) -> Self:
        """Start a new run in a fresh folder."""
        self.folder, self.started = RunFolder.create(out, self.settings), _now()
        with self._holding_the_folder():
            self.first_task.begin(self)
        return self

    def resume(self, out: Path) -> Self:
        """Resume an interrupted run exactly where it stopped; from the beginning if it has no checkpoint yet."""
        self.folder = RunFolder.open(out)
        self.folder.claim()
        with self._holding_the_folder():
            refuse_ended(out)
            checkpoint = self.folder.load_checkpoint(self.trainer.learning.device)
            if checkpoint is not None:
                self.load_state_dict(checkpoint)
            self.started = checkpoint["started"] if checkpoint else _now()
            self.first_task.begin(self)
        return self

    @contextmanager
    def _holding_the_folder(self) -> Iterator[None]:
        """Release the folder if the block fails; otherwise it stays locked."""
        try:
            yield
        except BaseException:
            self.folder.release()
            raise

    @property
    def steps_done(self) -> int:
        """Steps done since the run began."""
        return self.trainer.schedule.steps_done

    def steps(self, interrupt: Interrupt) -> Iterator[None]:
        """Train until the run finishes, diverges or is interrupted; afterwards `result` is set."""
        for watcher in self.watchers:
            watcher.begin(self)
        try:
            if not self.tested.class_il:
                self._evaluate(interrupt)
            while True:
                yield from self._train_task(interrupt)
                if interrupt.requested:
                    raise Stopped  # if this was the task's last step, end_task is called after resuming
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
        schedule, every, since = self.trainer.schedule, self.settings.evaluate_every, time.perf_counter()
        try:
            self._request_outputs()
            for step in self.trainer.steps():
                self.step_reports.add(schedule, step)
                self._request_outputs()
                if every and schedule.steps_done % every == 0:
                    self._evaluate_mid_task()
                if interrupt.requested:
                    break
                yield
            self.step_reports.flush()
        finally:
            self.seconds += time.perf_counter() - since

    def _request_outputs(self) -> None:
        """Request the outputs of the next step if any watcher wants them."""
        if self.output_watchers:
            schedule = self.trainer.schedule
            self.trainer.learning.outputs.due = any(watcher.due(schedule) for watcher in self.output_watchers)

    def _evaluate(self, interrupt: Interrupt) -> None:
        def progress(share: float) -> None:
            if interrupt.requested:
                raise Stopped
            self.advance(0, f"testing, {share:.0%}" if share else "testing")

        learning = self.trainer.learning
        with learning.numerics():
            accuracies = evaluate(learning.model, learning.predict, self.stream, progress)
        record = self.tested.add(accuracies, self.seconds)
        for watcher in self.watchers:
            watcher.task(record)

    def _evaluate_mid_task(self) -> None:
        """Record the mean accuracy over the tasks begun so far, in the middle of one; not counted as training time."""
        schedule, learning, since = self.trainer.schedule, self.trainer.learning, time.perf_counter()
        tasks = self.tested.first(schedule.task + 1)
        with learning.numerics():
            accuracies = evaluate(learning.model, learning.predict, tasks).class_il
        self.tested.over_stream.append([schedule.steps_done, mean_over(tasks, accuracies)])
        self.seconds -= time.perf_counter() - since

    def _save_model(self) -> None:
        learning, stream, frozen = self.trainer.learning, self.stream, self.stream.dataset.frozen
        about = described(learning.settings, stream.names[: learning.classes], stream.protocol, stream.shape, frozen)
        self.folder.save_model(learning.state() | ({"frozen": frozen.state()} if frozen else {}), about)

    def _interrupted(self) -> None:
        self.folder.save_checkpoint(self.state())
        again = ", ".join([repr(str(self.folder.path)), *(f"{name}=..." for name in self.settings.own_objects)])
        self._ended("interrupted", f"stopped after step {self.steps_done}; continue with: moca.resume({again})")

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
        return found | {"data": self.stream.dataset.fingerprint} | ({"own": self.own_code} if self.own_code else {})

    def give_up(self) -> None:
        """Leave without a result. `resume` will start from the last checkpoint, so the steps since then are taken back
        from the progress bar."""
        self.advance(len(self.step_reports.waiting) - self.steps_done, "waits")
        self.first_task.leave(self)
        self.folder.release()

    def state(self) -> dict[str, Any]:
        """The trainer's live state, to be saved before the next step, and the accuracies so far."""
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
            # It may be resumed on another machine, but only with the same method.
            "settings": self.settings.model_dump(
                mode="json", by_alias=True, exclude={"data", "data_dir", "device", "threads"}
            ),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state, if data and settings are still the same."""
        try:
            self._refuse_changed(state["data"], state["settings"])
            self.trainer.load_state_dict(state["trainer"])
            self.tested.class_il, self.tested.task_il = state["class_il"], state["task_il"]
            self.tested.over_stream, self.shared_with = state["over_stream"], state["shared_with"]
            self.task_ended, self.seconds = state["task_ended"], state["seconds"]
            if self.recorder:
                self.recorder.load_state_dict(state["recorded"])
        except KeyError:
            raise MocaError(
                f"run '{self.folder.path}' was stopped by an older moca, whose checkpoints this one cannot read; "
                "resume it with that version, or begin a new run"
            ) from None
        self.images_before = self.trainer.learning.images_trained
        self.advance(self.steps_done, RESUMED)

    def _refuse_changed(self, images: str, settings: dict[str, Any]) -> None:
        """Raise a `MocaError` unless images and settings are those with which the run was stopped."""
        remedy = "bring the old ones back, or begin a new run"
        if images != self.stream.dataset.fingerprint:
            raise MocaError(
                f"the images of '{self.settings.data}' have changed since run '{self.folder.path}' stopped; {remedy}"
            )
        now = self.settings.model_dump(mode="json", by_alias=True)
        if changed := [name for name, value in settings.items() if now.get(name) != value]:
            raise MocaError(
                f"the settings of run '{self.folder.path}' have changed since it stopped ({', '.join(changed)}); "
                f"{remedy}"
            )
