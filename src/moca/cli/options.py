"""Command-line options made from the settings, so that both always agree. No torch is needed to show the help."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from moca.settings import Run, Settings

_GROUP = Group("What to run", sort_key=1)


def with_run_options(function: Callable[..., Any], several: bool = False, without: tuple[str, ...] = ()) -> Any:
    """The function, taking as keywords its own options and every setting of a run; with `several`, of many runs."""
    return with_options(function, Run, tuple(Run.model_fields) if several else (), without)


def with_options(
    function: Callable[..., Any], settings: type[Settings], several: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> Any:
    """The function, taking as keywords its own options and every setting, each as text.

    Those in `several` take more than one value. What the text means is decided by the settings alone.
    """
    own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        _option(name, field, name in several) for name, field in settings.model_fields.items() if name not in without
    ]
    signature = inspect.Signature(own + options)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return function


def _option(name: str, field: FieldInfo, several: bool) -> inspect.Parameter:
    text = field.description or ""
    plain = field.default is None or isinstance(field.default, tuple)
    shown = None if plain else (lambda value, d=field.default: str(d))
    about = Parameter(
        help=text,
        group=_GROUP,
        show_default=shown if shown else False,
        consume_multiple=several,
        negative=(),
    )
    kind: Any = list[str] if several else str
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, about]
    )


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Only the options that the user gave; a single value stands for itself."""
    return {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in options.items() if v is not None}
