"""Errors that a user can fix: each message is one line that says what is wrong and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

SEVERAL = "moca compare takes several values, separated by spaces (in Python a list)"
"""The hint when several values, joined by commas or spaces, were given as one."""


class MocaError(Exception):
    """A request cannot be fulfilled; the message says why and what to do instead."""


class Unfit(MocaError):
    """A learner and a perturbation are incompatible."""

    def __init__(self, learner: str, perturb: str, why: str, instead: str) -> None:
        super().__init__(learner, perturb, why, instead)  # so that it can be pickled
        self.learner, self.perturb, self.why = learner, perturb, why

    def __str__(self) -> str:
        learner, perturb, why, instead = self.args
        return f"'{learner}' cannot take '{perturb}': {why}; use {instead} or another learner"


class Held(MocaError):
    """The folder is locked by another process."""


class Unreadable(MocaError):
    """A file of a run is missing, damaged, or of another version of moca."""


class Diverged(MocaError):
    """The loss of a run is no longer a finite number."""


class Interrupted(MocaError):
    """Stopped by Ctrl-C, SIGTERM or SIGHUP, after the state was saved; the message says how to resume."""


class MocaWarning(UserWarning):
    """Something the user should know that does not affect the run."""


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The closest known name, or one that has a similar word, if any is close; ++ is read as pp."""
    known, name = sorted(known), name.lower().replace("++", "pp")
    words = {word: one for one in reversed(known) for word in one.split("_")}
    close = get_close_matches(name, known, n=1, cutoff=cutoff) or [
        words[word] for word in get_close_matches(name, words, n=1, cutoff=0.8)
    ]
    return close[0] if close else None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the closest known name, or all names if none is close."""
    known = sorted(known)
    close = closest(name, known)
    return f"did you mean '{close}'?" if close else "known: " + ", ".join(known)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; those of other libraries can be long."""
    return str(error).strip().partition("\n")[0]


_NO_MEMORY = (
    "out of memory",
    "ALLOC_FAILED",
    "ALLOCATION_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "unable to find an engine",
    "can't allocate memory",
    "not enough memory",
    "Storage size calculation overflowed",
)
"""Out-of-memory messages on a CPU, and of the libraries below torch, which allocate memory themselves."""


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one it was raised while handling, means out of memory.

    The context matters because ending the capture of a CUDA graph that ran out of memory raises another exception.
    """
    if error is None:
        return False
    named = type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in _NO_MEMORY)
    return named or out_of_memory(error.__context__)
