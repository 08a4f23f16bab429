"""A run whose progress is read by a program: a line for every group of steps."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from moca import api
from moca.engine.children import HELD, IMAGES
from moca.errors import Held


def as_lines(folder: Path, keep_model: bool, track: Sequence[str] | None) -> int:
    """Go on with a run; its steps come as lines on stdout. When nobody reads them any more, it stops as by Ctrl-C."""

    def advance(steps: int, where: str) -> None:
        _tell(f"{steps}\t{where}")

    try:
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
