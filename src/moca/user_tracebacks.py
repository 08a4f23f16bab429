"""Exceptions raised in code of the user's own: where that was, and the traceback from there on."""

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from moca.paths import from_here

_NOT_THEIRS = {"moca", "torch", *sys.stdlib_module_names}
_NOTE = "moca: "
"""What begins the note that an exception of a run with code of the user's own bears."""


def in_a_line(error: BaseException) -> str:
    """Type, message, file and line: the innermost one of the package of the user's that was called, so that what that
    imports is not named; or the innermost of all where the exception came through no code of theirs."""
    raised, theirs = _raised(error)
    frames = list(traceback.walk_tb(theirs or raised.__traceback__))
    of_theirs = [place for place in frames if _package(place[0]) == _package(frames[0][0])]
    frame, number = (of_theirs if theirs else frames)[-1]
    message = traceback.format_exception_only(raised)[0].partition("\n")[0]
    return f"{message} ({from_here(Path(frame.f_code.co_filename))}:{number}, in {frame.f_code.co_name})"


def from_theirs_on(error: BaseException) -> str:
    """The traceback without what led to the user's code, and without notes; the whole one where it came through none of
    theirs."""
    raised, theirs = _raised(error)
    told = traceback.TracebackException(type(raised), raised, theirs or error.__traceback__)
    told.__notes__ = []
    return "".join(told.format())


def note(error: BaseException, line: str) -> None:
    """Have Python print the line below the traceback."""
    error.add_note(_NOTE + line)


def noted(error: BaseException) -> str | None:
    """The line that was noted, if any."""
    notes = (text.removeprefix(_NOTE) for text in getattr(error, "__notes__", ()) if text.startswith(_NOTE))
    return next(notes, None)


def _raised(error: BaseException) -> tuple[BaseException, TracebackType | None]:
    """The exception that came through the user's code, from there on. It may be one that another took the place of:
    ending the recording of a CUDA graph fails as well."""
    before: BaseException | None = error
    while before is not None:
        for trace in _inside(before.__traceback__):
            if _package(trace.tb_frame) not in _NOT_THEIRS:
                return before, trace
        before = before.__context__
    return error, None


def _inside(trace: TracebackType | None) -> Iterator[TracebackType]:
    """From the engine on: who called moca is not what was called by it."""
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
