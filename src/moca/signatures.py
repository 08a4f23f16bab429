"""Methods that a user's part overrides must take what moca passes to them."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from moca.errors import MocaError


def refuse_misfits(part: object, base: type, names: Iterable[str], several: int = 0) -> None:
    """Raise a `MocaError` for a method, overridden by `part`, that cannot be called with the arguments of `base`'s.

    Where that takes any number of them (`*replays`), there may be none, or `several`.
    """
    for name in names:
        wanted, own = getattr(base, name), getattr(type(part), name)
        if own is wanted:
            continue
        _, *taken = inspect.signature(wanted).parameters.values()
        fixed = [parameter.name for parameter in taken if parameter.kind is not parameter.VAR_POSITIONAL]
        calls = [fixed] if len(fixed) == len(taken) else [fixed, [*fixed, *[""] * several]]
        try:
            for given in calls:
                inspect.signature(getattr(part, name)).bind(*given)
        except TypeError:
            raise MocaError(
                f"'{type(part).__name__}' must define {name}{_in_short(wanted)}, not {name}{_in_short(own)}"
            ) from None


def _in_short(method: Callable[..., Any]) -> str:
    """A signature without types and defaults."""
    taken = inspect.signature(method).parameters.values()
    return str(inspect.Signature([one.replace(annotation=one.empty, default=one.empty) for one in taken]))
