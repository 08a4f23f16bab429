"""Stopping between two steps, never within one."""

import signal
import threading
from types import FrameType
from typing import Self


class Interrupt:
    """While entered, Ctrl-C and SIGTERM only set `requested`; a second one stops at once."""

    def __init__(self) -> None:
        self.requested = False

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
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
