"""Stops on a signal between two steps, never within one."""

import os
import signal
import threading
import time
from types import FrameType
from typing import Self

_SAME = 0.5
"""Signals within this many seconds count as one."""


class Interrupt:
    """While entered, Ctrl-C, SIGTERM and the closing of the terminal (SIGHUP) only set `requested`; a second signal at
    least half a second later stops at once.

    An earlier one is taken for the same signal, since the terminal and a parent program may both pass on one Ctrl-C.
    Under `nohup`, closing the terminal does not stop.
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
        """Request a stop after the current step."""
        self.requested = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._first is None:
            self.requested, self._first = True, time.monotonic()
            if os.isatty(2):
                os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")
        elif time.monotonic() - self._first > _SAME:
            raise KeyboardInterrupt
