"""Exceptions raised in the user's code: where they were raised, and the traceback from there on."""

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from moca.paths import from_here

_NOT_THEIRS = {"moca", "torch", *sys.stdlib_module_names}
_NOTE = "moca: "
"""Prefix of the note that moca adds to an exception raised in a run with user code."""


def in_a_line(error: BaseException) -> str:
    """Type, message, file and line of an exception.

    The line is the innermost one in the user's package that moca called, so that libraries it uses are not named; the
    innermost of all if the exception did not pass through user code.
    """
    raised, theirs = _raised(error)
    frames = list(traceback.walk_tb(theirs or raised.__traceback__))
    of_theirs = [place for place in frames if _package(place[0]) == _package(frames[0][0])]
    frame, number = (of_theirs if theirs else frames)[-1]
    message = traceback.format_exception_only(raised)[0].partition("\n")[0]
    return f"{message} ({from_here(Path(frame.f_code.co_filename))}:{number}, in {frame.f_code.co_name})"


def from_theirs_on(error: BaseException) -> str:
    """The traceback from the user's code on, without notes; if it did not pass through user code, from the innermost
    line of moca on."""
    raised, theirs = _raised(error)
    trimmed = traceback.TracebackException(type(raised), raised, theirs or _innermost_of_ours(raised.__traceback__))
    trimmed.__notes__ = []
    return "".join(trimmed.format())


def note(error: BaseException, line: str) -> None:
    """Add a line that Python prints below the traceback."""
    error.add_note(_NOTE + line)


def noted(error: BaseException) -> str | None:
    """The line added by `note`, if any."""
    notes = (text.removeprefix(_NOTE) for text in getattr(error, "__notes__", ()) if text.startswith(_NOTE))
    return next(notes, None)


def _raised(error: BaseException) -> tuple[BaseException, TracebackType | None]:
    """The exception that passed through user code, and its traceback from there on.

    This may be the context of the given exception: after an error during the capture of a CUDA graph, ending the
    capture raises another one.
    """
    before: BaseException | None = error
    while before is not None:
        for trace in _inside(before.__traceback__):
            if _package(trace.tb_frame) not in _NOT_THEIRS:
                return before, trace
        before = before.__context__
    return error, None


def _innermost_of_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the last frame in moca on; the full one if there is none."""
    innermost = trace
    while trace is not None:
        innermost = trace if _package(trace.tb_frame) == "moca" else innermost
        trace = trace.tb_next
    return innermost


def _inside(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The traceback from the engine on, leaving out the user's code that called moca."""
    inside = False
    while trace is not None:
        inside = inside or _module(trace.tb_frame).startswith("moca.engine.")
        if inside:
            yield trace
        trace = trace.tb_next


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]
