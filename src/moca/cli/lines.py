"""Resume a run with machine-readable progress: one line on stdout for each group of steps."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from moca.cli.show import aside
from moca.engine.folder import RunFolder
from moca.engine.subprocesses import HELD, IMAGES
from moca.errors import Held, Interrupted, MocaError
from moca.importing import loading


def as_lines(folder: Path, keep_model: bool, track: Sequence[str] | None) -> int:
    """Resume a run and print its progress as lines on stdout, and an error as Python says it: the reader may be a
    comparison in Python. If the reader goes away, it stops as with Ctrl-C.

    The run is locked before torch is loaded: otherwise another process could start it in the meantime.
    """

    def advance(steps: int, where: str) -> None:
        _print_line(f"{steps}\t{where}")

    try:
        run = RunFolder.open(folder)
        run.claim()
        with loading():
            from moca import api
        run.release()
        result = api.resume(folder, progress=advance, keep_model=keep_model, track=track)
    except Held:
        return HELD
    except MocaError as error:
        aside(f"moca: {error}")
        return 130 if isinstance(error, Interrupted) else 1
    _print_line(f"{IMAGES}\t{result.images_this_time}")
    return 0


def _print_line(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process
        signal.raise_signal(signal.SIGINT)
