"""Several runs at once on a CPU: each is a child process that runs `moca resume`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from moca.cores import cores
from moca.engine.folder import RESULT
from moca.engine.interrupt import Interrupt
from moca.engine.progress import DONE_BEFORE, ProgressBar
from moca.engine.result import Result
from moca.errors import Held, MocaError

if TYPE_CHECKING:
    from moca.engine.pack import Ending

IMAGES = "images"
"""Marks the last line of a child's output, with the number of images it has trained on."""
HELD = 75
"""Exit status of a child whose run is held by another process."""


def side_by_side(
    runs: Sequence[tuple[str, Callable[[], Path]]],
    jobs: int,
    bar: ProgressBar,
    ended: Callable[[Result], None] = lambda result: None,
) -> list[Ending]:
    """Carry out runs, `jobs` at a time; each is given by its name and a function that prepares its folder. `ended` is
    called with the result of each as it ends.

    If a child is killed, only its run fails. After a bug in one, or an error in `ended`, the others save their state,
    as after Ctrl-C. A run that another process holds is left to it and checked again later.
    """
    endings: list[Ending] = [None] * len(runs)
    bug: Exception | None = None
    waiting, busy, output = deque(enumerate(runs)), dict[int, _Child](), SimpleQueue[tuple[int, str]]()

    @contextmanager
    def settled(number: int) -> Iterator[None]:
        """Queue the run again if another process holds it, and note the error if it cannot be done."""
        try:
            yield
        except Held:
            waiting.append((number, runs[number]))
        except MocaError as error:
            endings[number] = error

    with Interrupt() as interrupt:
        try:
            while busy or (waiting and not interrupt.requested):
                for _ in range(len(waiting)):
                    if len(busy) >= jobs or interrupt.requested:
                        break
                    number, (name, given_folder) = waiting.popleft()
                    with settled(number):
                        folder = given_folder()
                        if (folder / RESULT).is_file():
                            endings[number] = result = Result.load(folder)
                            bar(result.steps, f"{name} {DONE_BEFORE}")
                        else:
                            busy[number] = _Child(number, name, folder, jobs, output)
                if interrupt.requested:
                    for child in busy.values():
                        child.stop()
                elif waiting and not busy:
                    bar.elsewhere(len(waiting))
                with suppress(Empty):
                    number, line = output.get(timeout=0.2)
                    if line:
                        done = len(runs) - len(waiting) - len(busy) + 1
                        busy[number].read(line, lambda steps, where: bar(steps, f"run {done}/{len(runs)} {where}"))  # noqa: B023
                        continue
                    try:
                        with settled(number):
                            endings[number] = busy.pop(number).ending()
                        if isinstance(ending := endings[number], Result):
                            ended(ending)
                    except Exception as error:
                        bug = bug or error
                        interrupt.request()
        finally:
            for child in busy.values():  # only after an exception, such as a second Ctrl-C
                child.close()
    if bug is not None:
        raise bug
    return endings


class _Child:
    """A run in a child process, and a thread that reads its output."""

    def __init__(self, number: int, name: str, folder: Path, jobs: int, output: SimpleQueue[tuple[int, str]]) -> None:
        self.name, self.folder, self.images, self.stopping = name, folder, 0, False
        threads = str(max(1, cores() // jobs))
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by `close`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moca", "resume", str(folder), "--progress", "lines", "--no-keep-model"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | {"OMP_NUM_THREADS": threads, "PYTHONPATH": path},
            text=True,
            start_new_session=True,  # Ctrl-C reaches all processes of a terminal; this one gets it once, from `stop`
        )
        self.listener = threading.Thread(target=self._listen, args=(number, output), daemon=True)
        self.listener.start()

    def _listen(self, number: int, output: SimpleQueue[tuple[int, str]]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                output.put((number, line.rstrip("\n") or " "))
        self.process.wait()
        output.put((number, ""))

    def close(self) -> None:
        """Kill the process if it is still running, and release its resources."""
        self.process.kill()
        self.listener.join()
        self.errors.close()

    def read(self, line: str, bar: Callable[[int, str], None]) -> None:
        """Handle a line of output: steps done and where the run is, or at the end the number of images trained on."""
        count, _, where = line.partition("\t")
        if count == IMAGES:
            self.images = int(where)
        elif count.lstrip("-").isdigit():
            bar(int(count), f"{self.name} {where}")

    def stop(self) -> None:
        """Ask the run to save its state and stop."""
        if not self.stopping:
            self.stopping = True
            with suppress(OSError):
                self.process.send_signal(signal.SIGINT)

    def ending(self) -> Ending:
        """How the run ended."""
        self.errors.seek(0)
        stderr, code = self.errors.readlines(), self.process.returncode
        self.close()
        if code == 0:
            result = Result.load(self.folder)
            result.images_this_time = self.images
            return result
        if code == HELD or (self.folder / RESULT).is_file():
            raise Held(f"another process is at '{self.folder}', or has ended it")
        if code == 130:
            return None
        if code == 1 and stderr and stderr[-1].startswith("moca: "):
            raise MocaError(stderr[-1].removeprefix("moca: ").strip())
        if code < 0:
            raise MocaError("its process was killed; the same comparison again resumes it")
        raise RuntimeError(f"a run failed\n{''.join(stderr)}")
