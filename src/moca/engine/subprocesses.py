"""Several runs at once on a CPU: each is a `moca resume` command of its own, as a person would type it."""

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
from moca.engine.progress import ProgressBar
from moca.engine.result import Result
from moca.errors import Held, MocaError

if TYPE_CHECKING:
    from moca.engine.pack import Ending

IMAGES = "images"
"""The word before the last line of a child: how many images it has trained on."""
HELD = 75
"""The exit status of a child that finds another process at its run."""


def side_by_side(runs: Sequence[tuple[str, Callable[[], Path]]], jobs: int, bar: ProgressBar) -> list[Ending]:
    """Carry out runs, each with its name and what gives it a folder with its settings, `jobs` at a time.

    A child that is killed costs the run that it had. After a defect in one the others keep their state, as after
    Ctrl-C. A run that another process is at is left to that, and looked at again later.
    """
    endings: list[Ending] = [None] * len(runs)
    defect: RuntimeError | None = None
    waiting, busy, said = deque(enumerate(runs)), dict[int, _Child](), SimpleQueue[tuple[int, str]]()

    @contextmanager
    def settled(number: int) -> Iterator[None]:
        """Inside, a run that another process is at waits again, and one that cannot be done says why."""
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
                            bar(result.steps, f"{name} done before")
                        else:
                            busy[number] = _Child(number, name, folder, jobs, said)
                if interrupt.requested:
                    for child in busy.values():
                        child.stop()
                elif waiting and not busy:
                    bar.elsewhere(len(waiting))
                with suppress(Empty):
                    number, line = said.get(timeout=0.2)
                    if line:
                        done = len(runs) - len(waiting) - len(busy) + 1
                        busy[number].told(line, lambda steps, where: bar(steps, f"run {done}/{len(runs)} {where}"))  # noqa: B023
                        continue
                    try:
                        with settled(number):
                            endings[number] = busy.pop(number).ending()
                    except RuntimeError as error:
                        defect = defect or error
                        interrupt.request()
        finally:
            for child in busy.values():  # only where this is left at once
                child.close()
    if defect is not None:
        raise defect
    return endings


class _Child:
    """One run in a process of its own, and a thread that listens to it."""

    def __init__(self, number: int, name: str, folder: Path, jobs: int, said: SimpleQueue[tuple[int, str]]) -> None:
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
            start_new_session=True,  # Ctrl-C reaches every process of a terminal; this one is told once, by us
        )
        self.listener = threading.Thread(target=self._listen, args=(number, said), daemon=True)
        self.listener.start()

    def _listen(self, number: int, said: SimpleQueue[tuple[int, str]]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                said.put((number, line.rstrip("\n") or " "))
        self.process.wait()
        said.put((number, ""))

    def close(self) -> None:
        """End it, if it has not ended, and let go of what it used."""
        self.process.kill()
        self.listener.join()
        self.errors.close()

    def told(self, line: str, bar: Callable[[int, str], None]) -> None:
        """A line of the child: steps done and where it is, or at its end how many images it has trained on."""
        count, _, where = line.partition("\t")
        if count == IMAGES:
            self.images = int(where)
        elif count.lstrip("-").isdigit():
            bar(int(count), f"{self.name} {where}")

    def stop(self) -> None:
        """Ask the run to keep its state and end."""
        if not self.stopping:
            self.stopping = True
            with suppress(OSError):
                self.process.send_signal(signal.SIGINT)

    def ending(self) -> Ending:
        """What came of the run."""
        self.errors.seek(0)
        said, code = self.errors.readlines(), self.process.returncode
        self.close()
        if code == 0:
            result = Result.load(self.folder)
            result.images_this_time = self.images
            return result
        if code == HELD or (self.folder / RESULT).is_file():
            raise Held(f"another process is at '{self.folder}', or has ended it")
        if code == 130:
            return None
        if code == 1 and said and said[-1].startswith("moca: "):
            raise MocaError(said[-1].removeprefix("moca: ").strip())
        if code < 0:
            raise MocaError("its process was killed; the same comparison again goes on with it")
        raise RuntimeError(f"a run failed\n{''.join(said)}")
