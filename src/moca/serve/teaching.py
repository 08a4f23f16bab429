"""Background lessons, one at a time, each in its own process.

Predictions do not wait for a lesson and survive if it runs out of memory, and it can be stopped at any moment: versions
are written atomically.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Literal

import torch

from moca.classifier.erasure import forget
from moca.classifier.folder import ModelFolder
from moca.classifier.lesson import teach
from moca.classifier.record import Lesson
from moca.cores import cores
from moca.data.arrays import Label
from moca.errors import MocaError
from moca.serve.uploads import Readable
from moca.wording import counted

State = Literal["none", "running", "used", "refused", "nothing new", "failed", "stopped"]


@dataclass(frozen=True)
class Status:
    """Progress of the current lesson, or the result of the last one."""

    state: State = "none"
    label: Label | None = None
    images: int = 0
    done: int = 0
    """Steps done."""
    steps: int = 0
    """Steps in all; 0 until that is known."""
    lesson: Lesson | None = None
    why: str | None = None
    """Why the lesson failed."""
    left_out: tuple[str, ...] = ()
    """One line for each image that could not be read."""

    @property
    def told(self) -> str:
        """The state in words."""
        version, in_use = (self.lesson.version, self.lesson.in_use) if self.lesson else (None, None)
        match self.state:
            case "none":
                return "there has been no lesson yet"
            case "running":
                return f"step {self.done} of {self.steps}" if self.steps else "the lesson is starting"
            case "used":
                return f"version {version} is in use"
            case "refused":
                return f"version {version} forgot too much; it is saved but not in use, version {in_use} still is"
            case "nothing new":
                return "nothing new: all images were learnt before"
            case "stopped":
                return "the lesson was stopped; the model is unchanged"
            case _:
                return f"{self.why}; the model is unchanged"


@dataclass(frozen=True)
class LessonRules:
    """Settings of all lessons: the share of held-out images, and how much accuracy old classes may lose."""

    held_out: float = 0.1
    tolerate: float = 0.2
    device: str = "auto"


class Busy(Exception):
    """Raised while a lesson is running."""


class Teaching:
    """Runs at most one lesson at a time. `ended` is called after each, before its result is published, and `log` with a
    line about it, unless it changed the model."""

    def __init__(
        self, folder: ModelFolder, rules: LessonRules, ended: Callable[[], object], log: Callable[[str], object] = str
    ) -> None:
        self._folder, self._rules, self._ended, self._log = folder, rules, ended, log
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._follower: threading.Thread | None = None
        self._stopping = False
        self.status = Status()

    def check_free(self) -> None:
        """Raise `Busy` if a lesson is running."""
        if self.status.state == "running":
            raise Busy

    def begin(self, label: Label, given: Readable) -> Status:
        """Start a lesson of one class."""
        with self._lock:
            self.check_free()
            begun = self.status = Status("running", label, len(given.images), left_out=tuple(given.left_out))
            self._process, self._stopping = None, False
            self._follower = threading.Thread(target=self._follow, args=(label, given), daemon=True)
            self._follower.start()
            return begun

    def use(self, version: int) -> None:
        """Put a version into use; refused while a lesson is running."""
        with self._changing(), self._folder.teaching():
            self._folder.rollback(version)

    def forget(self, label: Label) -> None:
        """Forget a class in a new version and put it into use; refused while a lesson is running."""
        with self._changing():
            forget(self._folder, label, device="cpu")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Keep lessons from starting while the model is changed, and call `ended` afterwards."""
        with self._lock:
            self.check_free()
            self._folder.check()
            yield
            self._ended()

    def _follow(self, label: Label, given: Readable) -> None:
        """Run the lesson and always publish its result: a status that stays "running" would block all later lessons."""
        try:
            status = self._result(*self._run_process(label, given))
            self._ended()
        except Exception as error:
            status = replace(self.status, state="failed", why=f"the lesson could not be run ({error})")
        if status.state != "used":
            self._log(f"lesson of '{label}' from {counted(len(given.images), 'image')}: {status.told}")
        self.status = status

    def _run_process(self, label: Label, given: Readable) -> tuple[object, int | None]:
        """Start the process and follow its progress until it ends; return its last message and its exit code."""
        context = _context()
        receiver, sender = context.Pipe(duplex=False)
        with receiver:
            with sender:  # closed here, so that the receiver sees EOF when the process ends
                process = context.Process(  # type: ignore[attr-defined]
                    target=_teach, args=(sender, self._folder, given, label, self._rules), daemon=True
                )
                process.start()
            self._process = process
            if self._stopping:
                process.terminate()
            message: tuple[int, int] | Lesson | str | None = None
            with suppress(EOFError, OSError):
                while not isinstance(message := receiver.recv(), Lesson | str):
                    self.status = replace(self.status, done=message[0], steps=message[1])
        process.join()
        return message, process.exitcode

    def _result(self, message: object, code: int | None) -> Status:
        if isinstance(message, Lesson):
            state: State = "nothing new" if not message.images else "used" if message.used else "refused"
            return replace(self.status, state=state, lesson=message)
        if isinstance(message, str):
            return replace(self.status, state="failed", why=message)
        if code == -signal.SIGTERM:
            return replace(self.status, state="stopped")
        return replace(self.status, state="failed", why=f"the lesson's process ended unexpectedly (exit code {code})")

    def stop(self) -> None:
        """Stop the lesson, if one is running; the model stays unchanged."""
        self._stopping = True
        if self._process is not None:
            self._process.terminate()
        if self._follower is not None:
            self._follower.join(10)


def _context() -> BaseContext:
    """A context that never forks this process, which has threads. On Linux, processes come from a fork server that has
    already imported this module."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _teach(sender: Connection, folder: ModelFolder, given: Readable, label: Label, rules: LessonRules) -> None:
    """The lesson's process, which teaches as `moca learn` does: sends (steps done, steps), then the lesson or an error
    message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then stops this process
    if hasattr(os, "nice"):
        os.nice(5)  # predictions go first
    torch.set_num_threads(max(1, cores() - 1))
    with suppress(BrokenPipeError):  # the service has ended
        try:
            lesson = teach(
                folder,
                given.images,
                [label] * len(given.images),
                names=given.names,
                relearn=True,  # somebody chose these images for this class
                held_out=rules.held_out,
                tolerate=rules.tolerate,
                device=rules.device,
                watch=lambda stage, done, total: sender.send((done, total)) if stage == "learning" else None,
            )
        except MocaError as error:
            sender.send(str(error))
        else:
            sender.send(lesson)
