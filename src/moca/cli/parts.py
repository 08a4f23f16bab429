"""What `moca ls` lists: everything that can be chosen by name, and its options."""

from moca.errors import MocaError, nearest
from moca.parts import KINDS, by_path
from moca.settings import HEADS, OPTIMISERS, SCHEDULES, Settings, names, options
from moca.settings.choice import options_of as settings_of

_TITLES = {"learner": "learners", "perturb": "perturbations", "model": "models"}
_CLOSED: dict[str, tuple[type[Settings], ...]] = {"heads": HEADS, "optimisers": OPTIMISERS, "schedules": SCHEDULES}


def lines() -> dict[str, dict[str, str]]:
    """By kind: each name with one line about it."""
    return {_TITLES[kind]: parts.lines() for kind, parts in KINDS.items()} | {
        title: names(choices) for title, choices in _CLOSED.items()
    }


def options_of(name: str) -> dict[str, str]:
    """Each option of what has that name, written as it is given, and what it means."""
    for parts in KINDS.values():
        if name in parts.lines():
            return _listed(name, settings_of(parts.find(name), name))
    if "." in name:
        return _listed(name, settings_of(by_path(name, "part"), name))
    for choices in _CLOSED.values():
        if name in names(choices):
            return _listed(name, choices[list(names(choices)).index(name)])
    raise MocaError(f"nothing is called '{name}'; {nearest(name, [n for kind in lines().values() for n in kind])}")


def _listed(name: str, choice: type[Settings]) -> dict[str, str]:
    return {f"{name}:{option}={default}": about for option, (default, about) in options(choice).items()}
