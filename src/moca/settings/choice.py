"""The choice of a part with its options: by name or as a class (`Choice`), as an object (`ReadyMade`), or as what
settings.json says about a part that is missing here (`Absent`)."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, PrivateAttr, create_model, model_validator
from pydantic import model_serializer as serializer

from moca.errors import MocaError
from moca.parts import KINDS, Kind, Part, called, declared_options, path_of
from moca.settings.base import Named, Settings, parse, validate


class Choice(Settings):
    """A chosen part: its name and all options, which are fields of a class created for each part (`options_of`)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    part: ClassVar[Any] = None
    """The class, or the function that creates an encoder; of an object, its class. None if it is absent."""
    name: str
    _own: bool = PrivateAttr(False)

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
    def object(self) -> Any:
        """What was chosen: the class, the function or the object. None if it is absent."""
        return self.part

    @property
    def options(self) -> dict[str, Any]:
        """Every option with its value."""
        return {name: value for name, value in self if name != "name"}

    @classmethod
    def checked(cls, options: dict[str, Any]) -> dict[str, Any]:
        """The options by name, with defaults for those not given; invalid ones raise a `MocaError`."""
        return validate(cls, {"name": cls.model_fields["name"].default, **options}).options

    def with_defaults(self, defaults: dict[str, Any]) -> Choice:
        """A copy with these defaults for options that were not given; itself if it is an object or absent."""
        if isinstance(self, ReadyMade | Absent) or not defaults:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        missing = {name: value for name, value in validate(type(self), {"name": self.name, **defaults})
                   if name in self._fields_named(defaults) and name not in given}  # fmt: skip
        return self.model_copy(update=missing)

    def with_known(self, defaults: dict[str, Any]) -> Choice:
        """`with_defaults` of those that are options of it."""
        known = {name for key, field in type(self).model_fields.items() for name in (key, field.alias)} - {"name"}
        return self.with_defaults({name: value for name, value in defaults.items() if name in known})

    def _fields_named(self, options: dict[str, Any]) -> set[str]:
        return {name for name, field in type(self).model_fields.items() if {name, field.alias} & options.keys()}

    def in_full(self) -> Named:
        """The short form with the options that differ from their defaults, or that a recipe would set if left open."""
        recipes = getattr(self.make() if _is_part(self.part) else self.part, "recipes", {})
        left_open = self._fields_named({key: value for recipe in recipes.values() for key, value in recipe.items()})
        fields = type(self).model_fields
        return self.naming({k for k, v in self if v != fields[k].default or k in left_open})

    def beyond(self, given: Choice) -> str:
        """The short form with the options in which it differs from `given`."""
        unlike = {k for k, v in self if v != getattr(given, k, v)}
        return str(self.naming(unlike)) if self.name == given.name else str(self)

    def make(self, shape: tuple[int, int, int] | None = None) -> Any:
        """Create the part, ready for one run. `shape` is that of the images, for encoders that take it."""
        takes_shape = shape is not None and "shape" in inspect.signature(self.part).parameters
        return self.part(**({"shape": shape} if takes_shape else {}), **self.options)

    def __reduce__(self) -> Any:
        """Pickle what its class is made from, because a class created at run time cannot be imported."""
        return _blank, (self.part, self.name, isinstance(self, ReadyMade)), self.__getstate__()

    @serializer(mode="wrap")
    def _with_own(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return handler(self) | ({"own": True} if self._own else {})


class ReadyMade(Choice):
    """An object that was given in place of a name, with its options. Each run gets a copy."""

    _object: Any = PrivateAttr(None)

    @property
    def object(self) -> Any:
        """The object itself."""
        return self._object

    def make(self, shape: tuple[int, int, int] | None = None) -> Any:
        """Copy the object."""
        return copy.deepcopy(self._object)


class Absent(Choice):
    """A user-defined part that is missing here: settings.json has its name and options, but nothing can make it."""

    _saved: dict[str, Any] = PrivateAttr(default_factory=dict)
    """Its options, of which none can be checked here."""

    def make(self, shape: tuple[int, int, int] | None = None) -> Any:
        """Raise a `MocaError`."""
        raise MocaError(
            f"'{self.name}' was a Python object, which settings.json cannot hold; continue from Python and pass it "
            "again: moca.resume(folder, ...), or for a model moca.load_model(folder, ...)"
        )

    @serializer(mode="wrap")
    def _with_own(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return handler(self) | self._saved


def options_of(part: Any, name: str | None = None) -> type[Choice]:
    """The settings class of a part, created from the options that it declares."""
    return _options_of(part, name, False)


@functools.cache
def _options_of(part: Hashable, name: str | None, ready_made: bool) -> type[Choice]:
    maker: Any = part
    name = name or path_of(maker) or called(maker)
    base: type[Choice] = ReadyMade if ready_made else Choice
    fields: dict[str, Any] = {} if ready_made and not _is_part(maker) else declared_options(maker)
    if "name" in fields:
        raise MocaError(f"'{name}' has an option 'name', which is what every part is called by; rename it")
    made = create_model(called(maker), __base__=base, __doc__=maker.__doc__, name=(str, name), **fields)
    made.part = maker if isinstance(maker, type) else staticmethod(maker)  # otherwise a function would become a method
    return made


def _blank(part: Any, name: str, ready_made: bool) -> Choice:
    """A choice without values yet, for unpickling."""
    cls = Absent if part is None else _options_of(part, name, ready_made)
    return cls.__new__(cls)


def _revived(
    part: Any, name: str, values: dict[str, Any], given: set[str], held: Any, own: bool, saved: dict[str, Any]
) -> Choice:
    """Unpickle a choice that an older moca pickled, as in a classifier that was saved with joblib."""
    ready_made = held is not None
    made = type(_blank(type(held) if ready_made else part, name, ready_made)).model_construct(given, **values)
    made._own = own
    if isinstance(made, ReadyMade):
        made._object = held
    elif isinstance(made, Absent):
        made._saved = saved | {"own": own}
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
            if value.part is not None:
                kind.refuse_others(value.part, value.name)
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
        ready_made = isinstance(value, Part) or (hasattr(value, "parameters") and not isinstance(value, type))
        return _of_object(value, kind) if ready_made else _of_maker(value, kind)

    return BeforeValidator(choose)


@functools.cache
def _single(setting: str) -> type[Settings]:
    """Settings with one field, which chooses a part."""
    field: dict[str, Any] = {setting: (Annotated[Choice, chosen(KINDS[setting])], ...)}
    return create_model(KINDS[setting].name, __base__=Settings, **field)


def choice_of(kind: Kind, spec: Any) -> Choice:
    """The choice of a part from any accepted form, outside the settings of a run."""
    made: Choice = getattr(validate(_single(kind.setting), {kind.setting: spec}), kind.setting)
    return made


def _by_name(value: str | dict[str, Any] | None, kind: Kind) -> Choice:
    options = parse(value, "name") if isinstance(value, str) else dict(value or {"name": "none"})
    name = options.pop("name", None)
    if options.get("own") is True:
        absent = Absent(name=str(name))
        absent._own, absent._saved = True, options
        return absent
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


def _of_maker(maker: Any, kind: Kind) -> Choice:
    """The choice of a class or a function. settings.json can hold it if an importable path leads back to it."""
    path = path_of(maker)
    name = path or called(maker)
    kind.refuse_others(maker, name)
    made = options_of(maker, name)(name=name)
    made._own = path is None
    return _consistent(made)


def _of_object(value: Any, kind: Kind) -> ReadyMade:
    """The choice of an object. settings.json can hold it if an importable path leads back to its class, and its options
    are all that it was made with."""
    cls: Any = type(value)
    path = path_of(cls) if isinstance(value, Part) and cls.__init__ is Part.__init__ else None
    name = path or cls.__name__
    kind.refuse_others(value, name)
    declared = cls.options if isinstance(value, Part) else {}
    options = {k: now for k, option in declared.items() if (now := getattr(value, k)) != option.default}
    made = _options_of(cls, name, True)(name=name, **options)
    assert isinstance(made, ReadyMade)
    made._object, made._own = value, path is None
    return made
