"""The choice of a part with its options: by name, as a class, or as an object of the user's own."""

from __future__ import annotations

import copy
import functools
from collections.abc import Hashable
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, PrivateAttr, SerializerFunctionWrapHandler, create_model
from pydantic import model_serializer as serializer

from moca.errors import MocaError
from moca.parts import KINDS, Kind, Part, called, declared_options, path_of
from moca.settings.base import Settings, parse, validate


class Choice(Settings):
    """A part by its name, with every option. The options are fields of a class made for each part (`options_of`)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    part: ClassVar[Any] = None
    """What is chosen: a class, or a function that makes an encoder."""
    name: str
    _object: Any = PrivateAttr(None)
    """What was given instead of a name, where no name leads back to it: settings.json can only say what it is."""
    _own: bool = PrivateAttr(False)
    _told: dict[str, Any] = PrivateAttr(default_factory=dict)
    """What settings.json says of an object that is not there."""

    @property
    def own(self) -> bool:
        """Whether it is an object of the user's own, which exists in Python only."""
        return self._own

    @property
    def held(self) -> Any:
        """What was given instead of a name, where no name leads back to it."""
        return self._object

    @property
    def options(self) -> dict[str, Any]:
        """Every option with its value."""
        return {name: value for name, value in self if name != "name"}

    @classmethod
    def checked(cls, options: dict[str, Any]) -> dict[str, Any]:
        """The options by name, with the defaults of those that are not given; a mistake is a `MocaError`."""
        return validate(cls, {"name": cls.model_fields["name"].default, **options}).options

    def with_defaults(self, defaults: dict[str, Any]) -> Choice:
        """The same, with these values of options that were not given; an object has all of its own."""
        if self._own or self._object is not None or not defaults:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        missing = {name: value for name, value in validate(type(self), {"name": self.name, **defaults})
                   if name in self._fields_named(defaults) and name not in given}  # fmt: skip
        return self.model_copy(update=missing)

    def _fields_named(self, options: dict[str, Any]) -> set[str]:
        return {name for name, field in type(self).model_fields.items() if {name, field.alias} & options.keys()}

    def in_full(self) -> str:
        """The short form with what differs from the defaults, and with what a recipe would set if it were left open."""
        recipes = getattr(self.make() if _is_part(self.part) else self.part, "recipes", {})
        left_open = self._fields_named({key: value for recipe in recipes.values() for key, value in recipe.items()})
        fields = type(self).model_fields
        return self._short([k for k, v in self if v != fields[k].default or k in left_open])

    def make(self) -> Any:
        """The part itself, ready for one run."""
        if self._object is not None:
            return copy.deepcopy(self._object)
        if self.part is None:
            raise MocaError(
                f"'{self.name}' was an object of Python, which settings.json cannot hold; go on from Python, handing "
                "it in again: moca.resume(folder, ...), of a model moca.load_model(folder, ...)"
            )
        return self.part(**self.options)

    def __reduce__(self) -> Any:
        """Pickled by its part, as classes made on the way have no address."""
        facts = dict(self), self.model_fields_set, self._object, self._own, self._told
        return _revived, (self.part, self.name, *facts)

    @serializer(mode="wrap")
    def _with_own(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return fields | self._told | ({"own": True} if self._own else {})


def options_of(part: Any, name: str | None = None) -> type[Choice]:
    """The settings of a part, made from what it declares."""
    return _options_of(part, name)


@functools.cache
def _options_of(part: Hashable, name: str | None) -> type[Choice]:
    maker: Any = part
    name = name or path_of(maker) or called(maker)
    fields: dict[str, Any] = declared_options(maker)
    if "name" in fields:
        raise MocaError(f"'{name}' has an option 'name', which is what every part is called by; rename it")
    made = create_model(called(maker), __base__=Choice, __doc__=maker.__doc__, name=(str, name), **fields)
    made.part = maker if isinstance(maker, type) else staticmethod(maker)  # or a function would be bound as a method
    return made


def _revived(
    part: Any, name: str, values: dict[str, Any], given: set[str], held: Any, own: bool, told: dict[str, Any]
) -> Choice:
    made = (Choice if part is None else options_of(part, name)).model_construct(given, **values)
    made._object, made._own, made._told = held, own, told
    return made


class Own(Settings):
    """Data of the user's own: known to Python, and to settings.json by its name only."""

    name: str
    own: bool = True
    _object: Any = PrivateAttr(None)

    @classmethod
    def of(cls, value: Any, name: str) -> Own:
        """Around an object."""
        made = cls(name=name)
        made._object = value
        return made

    @property
    def object(self) -> Any:
        """What was given."""
        return self._object


def chosen(kind: Kind) -> BeforeValidator:
    """Turn any accepted form into the choice of a part of this kind."""

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
        return _given(value, kind)

    return BeforeValidator(choose)


def _alone(kind: Kind) -> type[Settings]:
    """Settings that are one choice and nothing else."""
    field: dict[str, Any] = {kind.setting: (Annotated[Choice, chosen(kind)], ...)}
    return create_model(kind.name, __base__=Settings, **field)


_ALONE = {setting: _alone(kind) for setting, kind in KINDS.items()}


def choice_of(kind: Kind, spec: Any) -> Choice:
    """A part by itself, in any of the accepted forms."""
    made: Choice = getattr(validate(_ALONE[kind.setting], {kind.setting: spec}), kind.setting)
    return made


def _by_name(value: str | dict[str, Any] | None, kind: Kind) -> Choice:
    options = parse(value, "name") if isinstance(value, str) else dict(value or {"name": "none"})
    name = options.pop("name", None)
    if options.get("own") is True:
        return _absent(str(name), {key: told for key, told in options.items() if key != "own"})
    if not isinstance(name, str):
        raise MocaError(f"a {kind.name} needs its name: {{'name': ..., 'option': value}}")
    part = kind.find(name)
    return _sound(validate(options_of(part, name), {"name": name, **options}, kind.setting))


def _sound(made: Choice) -> Choice:
    """Refuse options that do not go together."""
    if _is_part(made.part):
        made.make()
    return made


def _is_part(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Part)


def _given(value: Any, kind: Kind) -> Choice:
    """A class or an object instead of a name. It can be written down where a name leads back to it."""
    if isinstance(value, type) or (not isinstance(value, Part) and not hasattr(value, "parameters")):
        path = path_of(value)
        name = path or called(value)
        kind.refuse_others(value, name)
        made = options_of(value, name)(name=name)
        made._own = path is None
        return _sound(made)
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
    """Where settings.json names an object of Python."""
    made = Choice(name=name)
    made._own, made._told = True, options
    return made
