"""How settings are written, checked and printed.

A choice with its own options (learner, perturbation, model, ...) can be written as a mapping, as a settings object or
in the short form `name:option=value,option=value`, for example `wap:lambda=1.5,steps=2`.
"""

import operator
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from numbers import Real
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from moca.errors import SEVERAL, MocaError, nearest
from moca.parts import dotted

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Named:
    """A choice by its name and some of its options, such as `lambda=0.5`."""

    name: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}:{','.join(self.options)}" if self.options else self.name


class Settings(BaseModel):
    """Immutable settings that refuse unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_by_name=True)

    leading: ClassVar[str] = "name"
    """The option whose value comes first in the short form, without its name."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        if isinstance(value, dict):
            known = set(cls.model_fields)
            aliases = {f.alias for f in cls.model_fields.values() if f.alias}
            for key in value:
                if key not in known | aliases:
                    from moca.settings.suggestions import setting_meant

                    of_part = cls.leading == "name"
                    options = (known - {"name"} if of_part else known) | aliases
                    known_ones = nearest(key, options) if options else "it has none"
                    hint = (of_part and setting_meant(key)) or known_ones
                    raise MocaError(f"unknown option {key!r} of {cls.title()}; {hint}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any) -> Any:
        """Pass true and false on as text where a number is expected: otherwise they would be taken for 1 and 0."""
        if not isinstance(value, dict):
            return value
        kinds = {spelt: f.annotation for name, f in cls.model_fields.items() for spelt in (name, f.alias) if spelt}
        flags = [key for key, given in value.items() if isinstance(given, bool) and not takes(kinds.get(key), bool)]
        return value | {key: str(value[key]).lower() for key in flags if takes(kinds.get(key), int, float)}

    @classmethod
    def title(cls) -> str:
        """What these settings belong to, for error messages."""
        name = cls.model_fields.get("name")
        return f"'{name.default}'" if name else cls.__name__.lower()

    def __str__(self) -> str:
        """The short form, if there is one, with only the options that differ from their defaults."""
        if self.leading not in type(self).model_fields:
            return super().__str__()
        return str(self.naming({k for k, v in self if v != type(self).model_fields[k].default}))

    def as_given(self) -> str:
        """The short form with every option that was given explicitly, even at its default."""
        return str(self.naming(self.model_fields_set))

    def naming(self, fields: Collection[str]) -> Named:
        """The short form with these of the options."""
        options = [f"{_spelling(type(self), k)}={word(v)}" for k, v in self if k in fields and k != self.leading]
        return Named(str(getattr(self, self.leading)), tuple(options))


def takes(annotation: Any, *kinds: type) -> bool:
    """Whether a single value of one of these types fits an annotation."""
    parts = get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else ()
    return annotation in kinds or any(takes(part, *kinds) for part in parts)


def whole_number(value: Any) -> int:
    """A whole number, also as text; raises a `TypeError` or `ValueError` for anything else, such as true."""
    if isinstance(value, bool):
        raise TypeError
    return int(value) if isinstance(value, str) else operator.index(value)


def _spelling(cls: type[Settings], field: str) -> str:
    return cls.model_fields[field].alias or field


def word(value: Any) -> str:
    """A setting in its short form; several values (lists, in files) are joined by commas."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def spelt(value: Any) -> str:
    """A setting as a user would write it, with every option that was given explicitly, even at its default."""
    return value.as_given() if isinstance(value, Settings) else word(value)


def flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings by their paths, such as `learner.name`."""
    paths: dict[str, Any] = {}
    for name, value in settings.items():
        paths |= flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {above + name: value}
    return paths


def parse(text: str, leading: str) -> dict[str, Any]:
    """Parse a short form into options; a value without a name belongs to the option before it: `steps:at=35,45`."""
    head, _, rest = text.partition(":")
    name, *given = re.split(r"[\s,;]+", head.strip())
    if given and "=" in head:
        raise MocaError(f"{text!r}: options follow a colon: {name}:{','.join(filter(None, [*given, rest]))}")
    if head.endswith(".py") and rest:
        raise MocaError(f"{text!r} is written as a dotted path: {dotted(head[:-3])}.{rest}")
    options: dict[str, Any] = {leading: head.strip()}
    last = ""
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals and not last:
            raise MocaError(f"{text!r}: expected option=value after ':', found {part!r}")
        if not equals:
            options[last] = (*_tuple(options[last]), key)
        elif key in options:
            raise MocaError(f"{text!r}: {key!r} is given twice")
        else:
            options[key], last = value, key
    return options


def several(value: Any) -> Any:
    """The values in a string, or a number, as a tuple: '35,45', '35 45' or 35."""
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    return (value,) if isinstance(value, int | float) else value


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def choice(kind: str, *classes: type[Settings]) -> BeforeValidator:
    """Turn any accepted form into one of `classes`, chosen by its name."""
    known = by_name(classes)

    def choose(value: Any) -> Settings:
        if isinstance(value, classes):
            return value
        if not isinstance(value, str | dict | None):
            raise MocaError(f"{kind} is written as name:option=value or as a mapping, not as {value!r}")
        options = parse(value, "name") if isinstance(value, str) else dict(value or {"name": "none"})
        name = options.get("name")
        if not isinstance(name, str) or name not in known:
            raise MocaError(f"unknown {kind} {str(name)!r}; {nearest(str(name), known)}")
        return known[name](**options)

    return BeforeValidator(choose)


def short(cls: type[Settings]) -> BeforeValidator:
    """Accept the short form for settings that have no name but a leading option."""

    def read(value: Any) -> Any:
        return parse(str(value), cls.leading) if isinstance(value, str | Real) else value

    return BeforeValidator(read)


def by_name(choices: tuple[type[Settings], ...]) -> dict[str, type[Settings]]:
    """The available choices by name."""
    return {cls.model_fields["name"].default: cls for cls in choices}


def _options(location: tuple[int | str, ...]) -> list[str]:
    """The option names in an error location of pydantic, without the types that it tried there."""
    return [part for part in location if isinstance(part, str) and not _is_type(part)]


def _is_type(part: int | str) -> bool:
    """Whether a part of pydantic's error location is a type that it tried, such as `tuple[int, ...]`. Not by prefix
    for `str`, because an option may be called `strength`."""
    return part in ("str", "int", "float") or str(part).startswith(("tuple[", "constrained-", "literal["))


def validate(cls: type[S], values: dict[str, Any], within: str = "") -> S:
    """Create settings from plain values. Invalid ones raise a one-line `MocaError` that names the setting, preceded by
    `within`, the setting that contains it."""
    try:
        return cls(**values)
    except ValidationError as error:
        first, *others = error.errors()
        # If a value may have several forms, the user probably meant the one whose validation got furthest.
        first = max([first, *(e for e in others if e["loc"][0] == first["loc"][0])], key=lambda e: len(e["loc"]))
        where = ".".join(part for part, _ in groupby(filter(None, [within, *_options(first["loc"])])))
        if first["type"] == "missing":
            raise MocaError(f"{where} must be given") from None
        forms = [e for e in (first, *others) if e["loc"][:-1] == first["loc"][:-1] and _is_type(e["loc"][-1])]
        single = [e for e in forms if e["type"] != "tuple_type"]  # a value that is no list was not meant to be one
        reasons = list(dict.fromkeys(_reason(e) for e in single or [first]))
        reason = " or ".join([reasons[0], *(other.removeprefix("must be ") for other in reasons[1:])])
        given = first["input"]
        if reason.endswith("number") and isinstance(given, str | tuple) and "," in (text := word(given)):
            given, reason = text, f"{reason}; {SEVERAL}"
        raise MocaError(f"{where or 'settings'} = {given!r}: {reason}") from None


_WRONG = {
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
}
"""Messages for pydantic's error types, or for their first word."""


def _reason(error: Mapping[str, Any]) -> str:
    kind = error["type"]
    wrong = _WRONG.get(kind) or _WRONG.get(kind.partition("_")[0])
    if wrong:
        return wrong.format(
            **{
                name: f"{limit:g}" if isinstance(limit, float) else limit
                for name, limit in error.get("ctx", {}).items()
            }
        )
    reason: str = error["msg"].removeprefix("Value error, ")
    return reason[:1].lower() + reason[1:]
