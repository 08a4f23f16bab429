"""Stopping between two steps, never within one."""

import multiprocessing
import os
import signal
import threading
import time
from types import FrameType
from typing import Self

_SAME = 0.5
"""Seconds within which signals are one and the same."""


class Interrupt:
    """While entered, Ctrl-C and SIGTERM only set `requested`; a second one, half a second later or more, stops at once.

    Sooner it is no second thought: a terminal and a program around this one may both pass on the same Ctrl-C. In a
    process of a comparison they certainly do, and there the comparison decides when it is enough.
    """

    def __init__(self) -> None:
        self.requested = False
        self._first = 0.0
        self._alone = multiprocessing.parent_process() is None

    def __enter__(self) -> Self:
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        if self._main:
            for s, handler in self._before.items():
                signal.signal(s, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested, self._first = True, time.monotonic()
            if self._alone and os.isatty(2):
                os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")
        elif self._alone and time.monotonic() - self._first > _SAME:
            raise KeyboardInterrupt
