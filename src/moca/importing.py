"""Ctrl-C during imports: it ends the program at once, instead of with a traceback from a half-done import."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def loading() -> Iterator[None]:
    """Wraps slow imports. Exiting at once is safe, since no work has started yet."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _in_main_thread():
        yield  # the host program has its own Ctrl-C handler
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"moca: stopped\n")
    os._exit(130)
