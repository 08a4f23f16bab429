"""Suggestions for unknown option names, in Python, on the command line and in files."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from moca import elsewhere
from moca.errors import MocaError, nearest
from moca.parts import ENCODERS, LEARNERS, PERTURBATIONS
from moca.settings.base import Settings
from moca.settings.choice import options_of
from moca.settings.heads import HEADS
from moca.settings.optimisers import OPTIMISERS, SCHEDULES
from moca.settings.run import Run

Init = TypeVar("Init", bound=Callable[..., None])


def refuse_unknown(given: Iterable[str], own: Iterable[str], where: str) -> None:
    """Refuse names that are neither settings of a run nor in `own`, the caller's own options."""
    known = {*Run.model_fields, *own}
    for name in given:
        if name not in known:
            hint = meant(name)
            raise MocaError(f"unknown option '{name}' {where}; {f'it {hint}' if hint else nearest(name, known)}")


def refuse_unknown_keywords(function: Callable[..., Any], given: Iterable[str]) -> None:
    """The same for a function that takes settings in addition to its own keywords."""
    taken = inspect.signature(function).parameters.values()
    own = [parameter.name for parameter in taken if parameter.kind is not parameter.VAR_KEYWORD]
    refuse_unknown(given, own, f"of {function.__name__}")


def refusing_unknown_keywords(init: Init) -> Init:
    """The same for a constructor that takes no other keywords than its own; its signature stays, for scikit-learn."""
    own = list(inspect.signature(init).parameters)

    @functools.wraps(init)
    def checked(self: Any, *values: Any, **given: Any) -> None:
        for name in given:
            if name not in own:
                called = elsewhere.OPTIONS.get(name)
                hint = f"it is called {called}= here" if called in own else nearest(name, own[1:])
                raise MocaError(f"unknown option '{name}' of {type(self).__name__}; {hint}")
        init(self, *values, **given)

    return cast(Init, checked)


def setting_meant(option: str) -> str:
    """The setting of a run that an unknown option of a part probably means; empty if there is no guess."""
    name = elsewhere.OPTIONS.get(option, option)
    return f"it is a setting of its own: {name}=..." if name in Run.model_fields else ""


def meant(name: str) -> str:
    """What an unknown name probably means, as the end of a sentence; empty if there is no guess."""
    if name in elsewhere.MEANT:
        return elsewhere.MEANT[name]
    if name in elsewhere.OPTIONS:
        return f"is called {elsewhere.OPTIONS[name]}= here"
    if name in ("seeds", "methods", "jobs", "choose"):
        return "is for several runs: use moca.compare"
    if name == "keep_model":
        return "is no option here: moca run keeps the weights anyway, a comparison with record=weights"
    for setting, choices in _choices().items():
        for choice in choices:
            for option, field in choice.model_fields.items():
                if name in (option, field.alias):
                    called = field.alias or option
                    return f"is an option of what {setting}= names: {setting}=NAME:{called}=... (moca ls NAME)"
    return ""


def _choices() -> dict[str, Iterable[type[Settings]]]:
    """For each setting that names a part, the option classes of all parts that it can name."""
    kinds = PERTURBATIONS, LEARNERS, ENCODERS
    found = {kind.setting: tuple(options_of(kind.find(name), name) for name in kind.built_in) for kind in kinds}
    return {"optimiser": OPTIMISERS, "schedule": SCHEDULES, "head": HEADS, **found}
