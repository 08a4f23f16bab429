"""Mistakes that a user can mend: each is one line that says what was wrong and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

SEVERAL = "moca compare takes several values, each by itself, with spaces between (in Python a list)"
"""What is said where values that commas or spaces join were taken for one."""


class MocaError(Exception):
    """Something the user asked for cannot be done; the message says why and what to do instead."""


class Unfit(MocaError):
    """A learner that cannot take a perturbation."""

    def __init__(self, learner: str, perturb: str, why: str, instead: str) -> None:
        super().__init__(learner, perturb, why, instead)  # what it is made of anew in another process
        self.learner, self.perturb, self.why = learner, perturb, why

    def __str__(self) -> str:
        learner, perturb, why, instead = self.args
        return f"'{learner}' cannot take '{perturb}': {why}; use {instead} or another learner"


class Held(MocaError):
    """Another process writes to the folder."""


class Diverged(MocaError):
    """The loss of a run is no longer a finite number."""


class Interrupted(MocaError):
    """Ctrl-C, SIGTERM or SIGHUP, after everything was kept; the message says how to go on."""


class MocaWarning(UserWarning):
    """Something that a user should know, and that costs the run nothing."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known name, or one with a word like it, or all of them when none is near; names
    write ++ as pp."""
    known, name = sorted(known), name.lower().replace("++", "pp")
    words = {word: one for one in reversed(known) for word in one.split("_")}
    close = get_close_matches(name, known, n=1, cutoff=0.6) or [
        words[word] for word in get_close_matches(name, words, n=1, cutoff=0.8)
    ]
    return f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(known)


def first_line(error: BaseException) -> str:
    """Of what an exception of somebody else's code says, which may be many."""
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
"""What is said on a CPU, and by the libraries below torch, which ask for memory of their own."""


def out_of_memory(error: BaseException | None) -> bool:
    """Whether this is why, or what came before: ending a recording that found no memory fails as well."""
    if error is None:
        return False
    named = type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in _NO_MEMORY)
    return named or out_of_memory(error.__context__)
