"""A run whose progress is read by a program: a line for every group of steps."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from moca.engine.folder import RunFolder
from moca.engine.subprocesses import HELD, IMAGES
from moca.errors import Held
from moca.importing import loading


def as_lines(folder: Path, keep_model: bool, track: Sequence[str] | None) -> int:
    """Go on with a run; its steps come as lines on stdout. When nobody reads them any more, it stops as by Ctrl-C.

    It is this process's from the first moment on, not only once torch is loaded: others would begin it as well.
    """

    def advance(steps: int, where: str) -> None:
        _tell(f"{steps}\t{where}")

    run = RunFolder.open(folder)
    try:
        run.claim()
        with loading():
            from moca import api
        run.release()
        result = api.resume(folder, progress=advance, keep_model=keep_model, track=track)
    except Held:
        return HELD
    _tell(f"{IMAGES}\t{result.images_this_time}")
    return 0


def _tell(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process
        signal.raise_signal(signal.SIGINT)
