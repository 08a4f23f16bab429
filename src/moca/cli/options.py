"""Command-line options generated from the settings, so that both always agree. The help is shown without torch."""

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from moca.settings import RECIPE, Run, Settings

_GROUPS = {
    "What to run": "data learner perturb memory tasks protocol class_order arrival classes",
    "How it is trained": "epochs batch replay_batch lr optimiser schedule model frozen head image_size augment offer "
    "bn_passes short_batch",
    "What is measured": "validation evaluate_every record",
    "Seed and machine": "seed device threads precision execution data_dir",
}
"""The settings of a run as its help shows them: by group, what is most often set first."""
FILES = Group("Files and trackers", sort_key=len(_GROUPS) + 1)
"""Options of a run that are not settings."""


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
        _option(name, settings.model_fields[name], group, name in several)
        for name, group in _grouped(settings).items()
        if name not in without
    ]
    signature = inspect.Signature(own + options)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return function


def _grouped(settings: type[Settings]) -> dict[str, Group]:
    """The group of each setting, in the order of the help."""
    titles = _GROUPS if settings is Run else {"What to run": " ".join(settings.model_fields)}
    groups = {title: Group(title, sort_key=number) for number, title in enumerate(titles, 1)}
    return {name: groups[title] for title, names in titles.items() for name in names.split()}


def _option(name: str, field: FieldInfo, group: Group, several: bool) -> inspect.Parameter:
    about = Parameter(
        help=" ".join(filter(None, (field.description, written(field.annotation)))),
        group=group,
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
