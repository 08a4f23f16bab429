"""Command-line options generated from the settings, so that both always agree. The help is shown without torch."""

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from moca.settings import RECIPE, Run, Settings

_GROUP = Group("What to run", sort_key=1)


def with_run_options(function: Callable[..., Any], several: bool = False, without: tuple[str, ...] = ()) -> Any:
    """Give a command every setting of a run as an option; with `several`, each of them takes several values."""
    return with_options(function, Run, tuple(Run.model_fields) if several else ("record",), without)


def with_options(
    function: Callable[..., Any], settings: type[Settings], several: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> Any:
    """Add every setting as a text option to the signature of a command, except those in `without`.

    Options in `several` take more than one value. The text is parsed by the settings, not here.
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
    about = Parameter(
        help=" ".join(filter(None, (field.description, written(field.annotation)))),
        group=_GROUP,
        show_default=_default(name, field),
        consume_multiple=1 if several else None,
        negative=(),
    )
    kind: Any = list[str] if several else str
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, about]
    )


def _default(name: str, field: FieldInfo) -> Any:
    """What the help shows as the default; False if there is none or the description has it."""
    if name in RECIPE and field is Run.model_fields.get(name):
        return lambda value: "the recipe's"
    if field.default is None or isinstance(field.default, tuple):
        return False
    return lambda value: str(field.default)


def written(annotation: Any) -> str:
    """The kind of value that an option takes, such as `[whole number]`; empty if it takes any text."""
    kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)] or [annotation]
    if typing.get_origin(annotation) is Literal:
        return f"[{'|'.join(map(str, kinds))}]"
    first = kinds[0]
    if typing.get_origin(first) is Annotated:
        return written(typing.get_args(first)[0])
    if typing.get_origin(first) is Literal:
        return written(first)
    if isinstance(first, type) and issubclass(first, Settings):
        return f"[{first.leading}:option=value]"
    word = {bool: "true|false", int: "whole number", float: "number"}.get(first, "")
    words = [choice for kind in kinds[1:] if typing.get_origin(kind) is Literal for choice in typing.get_args(kind)]
    return f"[{'|'.join([word, *words])}]" if word else ""


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave; a list of one value becomes that value."""
    return {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in options.items() if v is not None}
