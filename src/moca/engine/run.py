"""A run from settings to result: train each task, test all of them, keep everything in the run's folder."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from moca.data import load
from moca.engine.evaluate import evaluate
from moca.engine.folder import RESULT, STEPS, TASKS, RunFolder
from moca.engine.interrupt import Interrupt
from moca.engine.result import Result, Status
from moca.engine.trainer import Trainer
from moca.environment import environment
from moca.errors import Diverged, MocaError
from moca.learners import Losses
from moca.settings import Run, validate
from moca.streams import Stream, class_incremental

_FLUSH = (50, 500)
"""Steps between two looks at the losses, on the CPU and on a GPU, which waits for the host each time."""

Advance = Callable[[int, str], None]
"""Called with the number of steps just done (negative: to be done again) and where the run is."""


def build_stream(settings: Run) -> Stream:
    """The stream that the settings describe."""
    dataset = load(settings.data, data_dir=settings.data_dir, size=settings.image_size)
    if settings.protocol is not None:
        dataset = dataset.using(settings.protocol)
    protocol = dataset.protocol
    return class_incremental(
        dataset,
        settings.tasks or protocol.tasks_for(len(dataset.classes)),
        settings.class_order or protocol.class_order,
        settings.validation,
        settings.seed.of("classes"),
    )


def start(settings: Run, out: Path, advance: Advance | None = None, keep_model: bool = False) -> Running:
    """A new run in a fresh folder."""
    trainer = Trainer(settings, build_stream(settings))
    return Running(trainer, RunFolder.create(out, settings), advance, keep_model)


def resume(out: Path, advance: Advance | None = None, keep_model: bool = False) -> Running:
    """An interrupted run, exactly where it stopped; from the beginning if that was before its first checkpoint."""
    folder = RunFolder.open(out)
    settings = folder.settings()
    _refuse_ended(out)
    folder.claim()
    try:
        _refuse_ended(out)  # another process may have ended it meanwhile
        trainer = Trainer(settings, build_stream(settings))
        kept = folder.load_checkpoint(trainer.device)
        running = Running(trainer, folder, advance, keep_model)
        if kept is not None:
            running.load_state_dict(kept)
    except BaseException:
        folder.release()
        raise
    return running


def _refuse_ended(out: Path) -> None:
    if (out / RESULT).is_file():
        raise MocaError(f"run '{out}' cannot go on: it has {Result.load(out).status}")


class Running:
    """A run under way: the trainer, what has been measured, and where it is written."""

    result: Result
    """What the run found out, once it has ended."""
    images_before = 0
    """Trained on by earlier attempts."""
    packed = 1
    """Most runs that took turns at a time, this one included."""

    def __init__(self, trainer: Trainer, folder: RunFolder, advance: Advance | None, keep_model: bool) -> None:
        self.trainer, self.folder, self.keep_model = trainer, folder, keep_model
        self.advance = advance or (lambda steps, where: None)
        self.class_il: list[list[float]] = []
        self.task_il: list[list[float]] = []
        self.seconds = 0.0
        self.waiting: list[tuple[dict[str, Any], Losses]] = []

    def steps(self, interrupt: Interrupt) -> Iterator[None]:
        """Train to the end, to divergence or to an interruption; `result` is there afterwards."""
        try:
            if not self.class_il:
                self._evaluate()
            while True:
                yield from self._train_task(interrupt)
                if interrupt.requested:
                    self._interrupted()
                    return
                self._evaluate()
                if not self.trainer.next_task():
                    break
                self.folder.save_checkpoint(self._state())
        except Diverged as error:
            self._ended("diverged", str(error))
            return
        if self.keep_model:
            self._save_model()
        self._ended("finished")

    def _train_task(self, interrupt: Interrupt) -> Iterator[None]:
        begun, rhythm = time.perf_counter(), _FLUSH[self.trainer.device.type == "cuda"]
        try:
            for losses in self.trainer.steps():
                self._note(losses)
                if len(self.waiting) == rhythm:
                    self._flush()
                if interrupt.requested:
                    break
                yield
            self._flush()
        finally:
            self.seconds += time.perf_counter() - begun

    def _save_model(self) -> None:
        settings = self.trainer.settings.model_dump(mode="json", by_alias=True)
        about = {"settings": settings, "classes": self.trainer.stream.names}
        self.folder.save_model(self.trainer.model, {"moca": json.dumps(about)})

    def _note(self, losses: Losses) -> None:
        trainer = self.trainer
        place = {"step": trainer.steps_done, "task": trainer.task, "epoch": trainer.epoch, "lr": trainer.learning_rate}
        self.waiting.append((place, losses))

    def _flush(self) -> None:
        """Write the losses of the last steps and stop the run if one of them is not a number."""
        if not self.waiting:
            return
        values = torch.stack([loss for _, losses in self.waiting for loss in losses.values()]).tolist()
        records, broken = [], None
        remaining = iter(values)
        for place, losses in self.waiting:
            terms = {name: next(remaining) for name in losses}
            total = sum(terms.values())
            if not math.isfinite(total):
                broken = place
                break
            records.append(place | {"loss": total, **{f"loss_{k}": v for k, v in terms.items()}})
        self.folder.append(STEPS, records)
        self.advance(len(self.waiting), f"task {self.trainer.task + 1}/{len(self.trainer.tasks)}")
        self.waiting = []
        if broken:
            advice = "lower lr" + (" or lambda" if self.trainer.settings.perturb.name != "none" else "")
            raise Diverged(
                f"the loss is no longer a finite number at step {broken['step']} (task {broken['task'] + 1}, epoch "
                f"{broken['epoch'] + 1}); {advice}. The metrics up to there are in {self.folder.path}"
            )

    def _evaluate(self) -> None:
        with self.trainer.numerics():
            accuracies = evaluate(self.trainer.model, self.trainer.stream)
        self.class_il.append(accuracies.class_il)
        self.task_il.append(accuracies.task_il)
        record = {"learned": len(self.class_il) - 1, "class_il": accuracies.class_il, "task_il": accuracies.task_il}
        self.folder.append(TASKS, [record | {"steps": self.trainer.steps_done, "seconds": self.seconds}])

    def _interrupted(self) -> None:
        self.folder.save_checkpoint(self._state())
        message = f"stopped after step {self.trainer.steps_done}; go on with: moca resume {self.folder.path}"
        self._ended("interrupted", message)

    def _ended(self, status: Status, message: str = "") -> None:
        self.result = Result(
            self.trainer.settings,
            self.folder.path,
            status,
            message,
            self.class_il,
            self.task_il,
            self.trainer.steps_done,
            self.seconds,
            self.trainer.images_trained / max(self.seconds, 1e-9),
            self._environment(),
            self._notes(),
            self.trainer.images_trained - self.images_before,
        )
        if status == "interrupted":
            self.folder.release()
        else:
            self.result.save()
            self.folder.finish()

    def _environment(self) -> dict[str, Any]:
        with self.trainer.numerics():
            return environment(self.trainer.device) | ({"packed": self.packed} if self.packed > 1 else {})

    def _notes(self) -> list[str]:
        memory, stream, tasks = self.trainer.memory, self.trainer.stream, self.trainer.tasks
        samples, learnt = sum(len(task.train) for task in tasks), sum(len(task.classes) for task in tasks)
        notes = []
        if memory is not None and memory.size >= samples:
            notes.append(f"the memory is as large as all training data ({samples}): nothing need be forgotten")
        if learnt < stream.classes:
            notes.append(f"the tasks have {learnt} of the {stream.classes} classes; the others were left out")
        return notes

    def give_up(self) -> None:
        """Leave without a result; `resume` goes on from the last checkpoint, so that the steps since do not count."""
        self.advance(len(self.waiting) - self.trainer.steps_done, "waits")
        self.folder.release()

    def _state(self) -> dict[str, Any]:
        """The trainer's state itself, to be written before the run goes on, and what has been measured so far."""
        return {
            "trainer": self.trainer.state(),
            "class_il": self.class_il,
            "task_il": self.task_il,
            "seconds": self.seconds,
            "data": self.trainer.stream.dataset.fingerprint,
            # It may go on elsewhere, but as what it was.
            "settings": self.trainer.settings.model_dump(
                mode="json", by_alias=True, exclude={"data", "data_dir", "device", "threads"}
            ),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        if state.get("data", self.trainer.stream.dataset.fingerprint) != self.trainer.stream.dataset.fingerprint:
            raise MocaError(
                f"the images of '{self.trainer.settings.data}' have changed since run '{self.folder.path}' stopped; "
                "bring the old ones back, or begin a new run"
            )
        now = self.trainer.settings
        before = validate(Run, now.model_dump(mode="json", by_alias=True) | state.get("settings", {}))
        changed = [name for name in Run.model_fields if getattr(before, name) != getattr(now, name)]
        if changed:
            raise MocaError(
                f"the settings of run '{self.folder.path}' have changed since it stopped ({', '.join(changed)}); bring "
                "the old ones back, or begin a new run"
            )
        self.trainer.load_state_dict(state["trainer"])
        self.class_il, self.task_il = state["class_il"], state["task_il"]
        self.seconds, self.images_before = state["seconds"], self.trainer.images_trained
        self.advance(self.trainer.steps_done, "resumed")
