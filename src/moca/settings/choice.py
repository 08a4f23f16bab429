"""The choice of a part with its options: by name, as a class, or as a user-defined object."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Hashable
from typing import Annotated, Any, ClassVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    create_model,
    model_validator,
)
from pydantic import model_serializer as serializer

from moca.errors import MocaError
from moca.parts import KINDS, Kind, Part, called, declared_options, path_of
from moca.settings.base import Settings, parse, validate


class Choice(Settings):
    """A chosen part: its name and all options, which are fields of a class created for each part (`options_of`)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    part: ClassVar[Any] = None
    """The part: a class, or a function that creates an encoder."""
    name: str
    _object: Any = PrivateAttr(None)
    """The object that was given in place of a name, if any."""
    _own: bool = PrivateAttr(False)
    _absent_options: dict[str, Any] = PrivateAttr(default_factory=dict)
    """What settings.json says about a Python object that is missing here."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_attributes(cls, value: Any) -> Any:
        """Refuse plain attributes of a user's class: only `moca.option` declares an option."""
        for name in value.keys() - {"name"} if isinstance(value, dict) and _is_part(cls.part) else ():
            home = next((base for base in cls.part.__mro__ if name in vars(base)), None)
            if home is None or home.__module__.startswith("moca.") or name in cls.part.options:
                continue
            if not callable(now := getattr(cls.part, name)):
                raise MocaError(
                    f"'{name}' of {cls.title()} is an attribute, not an option; declare it with moca.option: "
                    f"{name}: {type(now).__name__} = moca.option({now!r}, 'what it is')"
                )
        return value

    @property
    def own(self) -> bool:
        """Whether it is user-defined and exists only in Python: no importable path leads back to it."""
        return self._own

    @property
    def held(self) -> Any:
        """The object that was given in place of a name, if any."""
        return self._object

    @property
    def options(self) -> dict[str, Any]:
        """Every option with its value."""
        return {name: value for name, value in self if name != "name"}

    @classmethod
    def checked(cls, options: dict[str, Any]) -> dict[str, Any]:
        """The options by name, with defaults for those not given; invalid ones raise a `MocaError`."""
        return validate(cls, {"name": cls.model_fields["name"].default, **options}).options

    def with_defaults(self, defaults: dict[str, Any]) -> Choice:
        """A copy in which options that were not given have these defaults; an object keeps all of its own options."""
        if self._own or self._object is not None or not defaults:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        missing = {name: value for name, value in validate(type(self), {"name": self.name, **defaults})
                   if name in self._fields_named(defaults) and name not in given}  # fmt: skip
        return self.model_copy(update=missing)

    def _fields_named(self, options: dict[str, Any]) -> set[str]:
        return {name for name, field in type(self).model_fields.items() if {name, field.alias} & options.keys()}

    def in_full(self) -> str:
        """The short form with options that differ from their defaults, or that a recipe would set if they were left
        open."""
        recipes = getattr(self.make() if _is_part(self.part) else self.part, "recipes", {})
        left_open = self._fields_named({key: value for recipe in recipes.values() for key, value in recipe.items()})
        fields = type(self).model_fields
        return self._short([k for k, v in self if v != fields[k].default or k in left_open])

    def beyond(self, given: Choice) -> str:
        """The short form with the options in which it differs from `given`."""
        return self._short([k for k, v in self if v != getattr(given, k, v)]) if self.name == given.name else str(self)

    def make(self) -> Any:
        """Create the part, ready for one run."""
        if self._object is not None:
            return copy.deepcopy(self._object)
        if self.part is None:
            raise MocaError(
                f"'{self.name}' was a Python object, which settings.json cannot hold; continue from Python and pass it "
                "again: moca.resume(folder, ...), or for a model moca.load_model(folder, ...)"
            )
        return self.part(**self.options)

    def __reduce__(self) -> Any:
        """Pickle the part and the values, because a class created at run time cannot be imported."""
        values = dict(self), self.model_fields_set, self._object, self._own, self._absent_options
        return _revived, (self.part, self.name, *values)

    @serializer(mode="wrap")
    def _with_own(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return fields | self._absent_options | ({"own": True} if self._own else {})


def options_of(part: Any, name: str | None = None) -> type[Choice]:
    """The settings class of a part, created from the options that it declares."""
    return _options_of(part, name)


@functools.cache
def _options_of(part: Hashable, name: str | None) -> type[Choice]:
    maker: Any = part
    name = name or path_of(maker) or called(maker)
    fields: dict[str, Any] = declared_options(maker)
    if "name" in fields:
        raise MocaError(f"'{name}' has an option 'name', which is what every part is called by; rename it")
    made = create_model(called(maker), __base__=Choice, __doc__=maker.__doc__, name=(str, name), **fields)
    made.part = maker if isinstance(maker, type) else staticmethod(maker)  # otherwise a function would become a method
    return made


def _revived(
    part: Any, name: str, values: dict[str, Any], given: set[str], held: Any, own: bool, absent: dict[str, Any]
) -> Choice:
    """Unpickle a choice."""
    made = (Choice if part is None else options_of(part, name)).model_construct(given, **values)
    made._object, made._own, made._absent_options = held, own, absent
    return made


class Own(Settings):
    """User-defined data, which exists only in Python; settings.json has only its name."""

    name: str
    own: bool = True
    _object: Any = PrivateAttr(None)

    @classmethod
    def of(cls, value: Any, name: str) -> Own:
        """Wrap an object."""
        made = cls(name=name)
        made._object = value
        return made

    @property
    def object(self) -> Any:
        """The wrapped object."""
        return self._object


def chosen(kind: Kind) -> BeforeValidator:
    """A validator that turns any accepted form into the choice of a part of this kind."""

    def choose(value: Any) -> Choice:
        if isinstance(value, Choice):
            held = value.part if value._object is None else value._object
            if held is not None:
                kind.refuse_others(held, value.name)
            return value
        if isinstance(value, str | dict | None):
            return _by_name(value, kind)
        if isinstance(value, list | tuple):
            raise MocaError(f"{kind.setting} = {value!r}: several values are a list, for moca.compare")
        if not callable(value) and not isinstance(value, Part):
            raise MocaError(
                f"a {kind.name} is written as name:option=value or as a mapping, or is a class or an object of yours; "
                f"{value!r} is none of these"
            )
        return _by_value(value, kind)

    return BeforeValidator(choose)


def _single(kind: Kind) -> type[Settings]:
    """Settings with one field, the choice of a part of this kind."""
    field: dict[str, Any] = {kind.setting: (Annotated[Choice, chosen(kind)], ...)}
    return create_model(kind.name, __base__=Settings, **field)


_SINGLE = {setting: _single(kind) for setting, kind in KINDS.items()}


def choice_of(kind: Kind, spec: Any) -> Choice:
    """The choice of a part from any accepted form, outside the settings of a run."""
    made: Choice = getattr(validate(_SINGLE[kind.setting], {kind.setting: spec}), kind.setting)
    return made


def _by_name(value: str | dict[str, Any] | None, kind: Kind) -> Choice:
    options = parse(value, "name") if isinstance(value, str) else dict(value or {"name": "none"})
    name = options.pop("name", None)
    if options.get("own") is True:
        return _absent(str(name), {key: value for key, value in options.items() if key != "own"})
    if not isinstance(name, str):
        raise MocaError(f"a {kind.name} needs its name: {{'name': ..., 'option': value}}")
    part = kind.find(name)
    return _consistent(validate(options_of(part, name), {"name": name, **options}, kind.setting))


def _consistent(made: Choice) -> Choice:
    """Return the choice, or raise if its options do not go together."""
    if _is_part(made.part):
        try:
            inspect.signature(made.part).bind(**made.options)
        except TypeError:
            raise MocaError(
                f"the __init__ of '{made.name}' does not take its options; leave it out and declare options with "
                "moca.option, or pass an object in Python"
            ) from None
        made.make()
    return made


def _is_part(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Part)


def _by_value(value: Any, kind: Kind) -> Choice:
    """The choice of a class or an object. settings.json can hold it if an importable path leads back to it."""
    if isinstance(value, type) or (not isinstance(value, Part) and not hasattr(value, "parameters")):
        path = path_of(value)
        name = path or called(value)
        kind.refuse_others(value, name)
        made = options_of(value, name)(name=name)
        made._own = path is None
        return _consistent(made)
    cls = type(value)
    path = path_of(cls) if isinstance(value, Part) and cls.__init__ is Part.__init__ else None
    kind.refuse_others(value, path or cls.__name__)
    if isinstance(value, Part):
        options = {k: getattr(value, k) for k, declared in cls.options.items() if getattr(value, k) != declared.default}
        made = options_of(cls, path or cls.__name__)(name=path or cls.__name__, **options)
    else:
        made = Choice(name=cls.__name__)
    made._object, made._own = value, path is None
    return made


def _absent(name: str, options: dict[str, Any]) -> Choice:
    """The choice for a Python object that settings.json names, but that is missing here."""
    made = Choice(name=name)
    made._own, made._absent_options = True, options
    return made
