"""Stopping between two steps, never within one."""

import os
import signal
import threading
import time
from types import FrameType
from typing import Self

_SAME = 0.5
"""Seconds within which signals are one and the same."""


class Interrupt:
    """While entered, Ctrl-C, SIGTERM and the end of the terminal only set `requested`; a second one, half a second
    later or more, stops at once.

    Sooner it is no second thought: a terminal and a program around this one may both pass on the same Ctrl-C. Under
    `nohup` the end of the terminal is no reason to stop.
    """

    def __init__(self) -> None:
        self.requested = False
        self._first: float | None = None

    def __enter__(self) -> Self:
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            signals = [signal.SIGINT, signal.SIGTERM]
            if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                signals.append(signal.SIGHUP)
            self._before = {s: signal.signal(s, self._handle) for s in signals}
        return self

    def __exit__(self, *exc: object) -> None:
        if self._main:
            for s, handler in self._before.items():
                signal.signal(s, handler)

    def request(self) -> None:
        """Ask for a stop after the step that is being done."""
        self.requested = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._first is None:
            self.requested, self._first = True, time.monotonic()
            if os.isatty(2):
                os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")
        elif time.monotonic() - self._first > _SAME:
            raise KeyboardInterrupt
