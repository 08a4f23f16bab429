"""Lessons in the background, one at a time, each in a process of its own: predictions neither wait for it nor suffer if
it runs out of memory, and it can be stopped at any moment. A version is written whole or not at all."""

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

from moca.classifier.folder import ModelFolder
from moca.classifier.lesson import Lesson, forget, teach
from moca.data.arrays import Label
from moca.errors import MocaError
from moca.serve.uploads import Readable

State = Literal["none", "running", "used", "refused", "nothing new", "failed", "stopped"]


@dataclass(frozen=True)
class Status:
    """How far the lesson is, or what came of the last one."""

    state: State = "none"
    label: Label | None = None
    images: int = 0
    done: int = 0
    """Steps."""
    steps: int = 0
    """Of so many; 0 until that is known."""
    lesson: Lesson | None = None
    why: str | None = None
    """What went wrong."""
    left_out: tuple[str, ...] = ()
    """Images that could not be read, a line each."""


@dataclass(frozen=True)
class LessonRules:
    """How lessons are held: the share of images to judge by, and how much accuracy old classes may lose."""

    held_out: float = 0.1
    tolerate: float = 0.2
    device: str = "auto"


class Busy(Exception):
    """There is a lesson already."""


class Teaching:
    """At most one lesson at a time; `ended` is called after each, before its result is told."""

    def __init__(self, folder: ModelFolder, rules: LessonRules, ended: Callable[[], object]) -> None:
        self._folder, self._rules, self._ended = folder, rules, ended
        self._one = threading.Lock()
        self._process: BaseProcess | None = None
        self._follower: threading.Thread | None = None
        self._stopping = False
        self.status = Status()

    def check_free(self) -> None:
        """That there is no lesson."""
        if self.status.state == "running":
            raise Busy

    def begin(self, label: Label, given: Readable) -> Status:
        """Begin a lesson of one class."""
        with self._one:
            self.check_free()
            begun = self.status = Status("running", label, len(given.images), left_out=tuple(given.left_out))
            self._process, self._stopping = None, False
            self._follower = threading.Thread(target=self._follow, args=(label, given), daemon=True)
            self._follower.start()
            return begun

    def use(self, version: int) -> None:
        """Put a version to use; refused while there is a lesson."""
        with self._changing(), self._folder.teaching():
            self._folder.rollback(version)

    def forget(self, label: Label) -> None:
        """A version without a class, put to use; refused while there is a lesson."""
        with self._changing():
            forget(self._folder, label, device="cpu")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Inside, no lesson begins; what is in use is taken up afterwards."""
        with self._one:
            self.check_free()
            self._folder.check()
            yield
            self._ended()

    def _follow(self, label: Label, given: Readable) -> None:
        """Hold the lesson and tell what came of it, whatever that was: while one seems to go on none can begin."""
        try:
            status = self._result(*self._held(label, given))
            self._ended()
        except Exception as error:
            status = replace(self.status, state="failed", why=f"no lesson could be held ({error})")
        self.status = status

    def _held(self, label: Label, given: Readable) -> tuple[object, int | None]:
        """Start the process, and read what it tells until it ends: its last message, and its exit code."""
        context = _context()
        told, tells = context.Pipe(duplex=False)
        with told:
            with tells:  # closed here, so that its end is seen when the process ends
                process = context.Process(  # type: ignore[attr-defined]
                    target=_hold, args=(tells, self._folder, given, label, self._rules), daemon=True
                )
                process.start()
            self._process = process
            if self._stopping:
                process.terminate()
            message: tuple[int, int] | Lesson | str | None = None
            with suppress(EOFError, OSError):
                while not isinstance(message := told.recv(), Lesson | str):
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
        return replace(
            self.status, state="failed", why=f"the lesson's process ended before its time (exit code {code})"
        )

    def stop(self) -> None:
        """End the lesson, if there is one; the model stays what it was."""
        self._stopping = True
        if self._process is not None:
            self._process.terminate()
        if self._follower is not None:
            self._follower.join(10)


def _context() -> BaseContext:
    """New processes, never copies of this one with its threads. On Linux they come from one that has loaded all."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _hold(told: Connection, folder: ModelFolder, given: Readable, label: Label, rules: LessonRules) -> None:
    """A lesson as `moca learn` holds it, in a process: tells (steps done, of so many), then what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends this
    if hasattr(os, "nice"):
        os.nice(5)  # who waits for a prediction goes first
    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
    with suppress(BrokenPipeError):  # the service is gone
        try:
            lesson = teach(
                folder,
                given.images,
                [label] * len(given.images),
                names=given.names,
                held_out=rules.held_out,
                tolerate=rules.tolerate,
                device=rules.device,
                said=lambda done, steps: told.send((done, steps)),
            )
        except MocaError as error:
            told.send(str(error))
        else:
            told.send(lesson)
