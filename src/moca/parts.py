"""Parts: learners, perturbations, encoders and trackers, each with its own options, found by name.

Every module of `learners/`, `perturb/`, `models/encoders/` and `trackers/` except `base` defines one part, which is
named after the module: adding a file adds a method. A part is found by that name, by a name given with `register` (also
from a package with an entry point in the group `moca.plugins`), or by its dotted path, such as `mypackage.mine.Mine`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from pydantic import Field
from pydantic.fields import FieldInfo

from moca.elsewhere import learner_meant
from moca.errors import SEVERAL, MocaError, first_line, nearest

PLUGINS = "moca.plugins"
"""The entry-point group of plugin packages: each entry point is loaded, and registers its parts."""


@dataclass(frozen=True)
class Option:
    """An option of a part: its default, description and limits."""

    default: Any
    about: dict[str, Any]

    def field(self) -> FieldInfo:
        """The option as a pydantic field."""
        made: FieldInfo = Field(self.default, **self.about)
        return made


def option(default: Any, description: str, **limits: Any) -> Any:
    """Declare an option in the class body of your own learner, perturbation or tracker.

    It becomes an attribute and a constructor keyword, and can be set by name: `"mine:alpha=0.2"`.

    Args:
        default: The value if none is given.
        description: What it means, as shown by `moca ls`.
        **limits: Arguments of pydantic's `Field`: `ge`, `gt`, `le`, `lt`, `alias`, ...

    Example:
        >>> class Mine(moca.Learner):
        ...     alpha: float = moca.option(0.1, "weight of the logits", ge=0)
        >>> Mine(alpha=0.2).alpha
        0.2
    """
    return Option(default, {"description": description, **limits})


class Part:
    """Something with options, which become attributes: `DERpp(alpha=0.2).alpha`."""

    options: ClassVar[dict[str, Option]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Option)}
        for name in cls.options.keys() & vars(cls).keys() - own.keys():  # a plain value is a new default
            own[name] = replace(cls.options[name], default=vars(cls)[name])
        cls.options = cls.options | own
        for name, declared in own.items():
            setattr(cls, name, declared.default)

    def __init__(self, **options: Any) -> None:
        from moca.settings.choice import options_of

        for name, value in options_of(type(self)).checked(options).items():
            setattr(self, name, value)
        self.check()

    def check(self) -> None:
        """Raise a `MocaError` if the options contradict each other."""

    def __repr__(self) -> str:
        changed = (name for name, declared in self.options.items() if getattr(self, name) != declared.default)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"


def declared_options(part: Any) -> dict[str, tuple[Any, FieldInfo]]:
    """Type and field of each option: those declared in a `Part`, or the parameters of any other class or function that
    makes a part, such as an encoder, except `shape`."""
    if isinstance(part, type) and issubclass(part, Part):
        return {name: (_type_of(part, name), declared.field()) for name, declared in part.options.items()}
    hints = typing.get_type_hints(_annotated(part), include_extras=True)
    made = {}
    for name, parameter in inspect.signature(part).parameters.items():
        if name == "shape" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        made[name] = (hints.get(name, Any), FieldInfo(default=default))
    return made


def _annotated(part: Any) -> Any:
    """The function whose annotations are the types of the options, for a callable that is not a `Part`."""
    if isinstance(part, type):
        return part.__init__  # type: ignore[misc]
    part = part.func if isinstance(part, functools.partial) else part
    return part if isinstance(part, type) or hasattr(part, "__name__") else type(part).__call__


def _type_of(part: type[Part], name: str) -> Any:
    home = next((cls for cls in part.__mro__ if name in inspect.get_annotations(cls)), None)
    if home is None:
        raise MocaError(f"option '{name}' of {part.__name__} needs its type: {name}: float = option(...)")
    lone = SimpleNamespace(__annotations__={name: home.__annotations__[name]})
    return typing.get_type_hints(lone, vars(sys.modules[home.__module__]), include_extras=True)[name]


@dataclass
class Kind:
    """A kind of part: which parts there are, and how to find one."""

    name: str
    """Its name in messages."""
    setting: str
    """The setting that selects a part of this kind."""
    folder: str
    """A folder of this package; every module there except `base` is a part."""
    what: str
    """What a part of this kind must be, for error messages."""
    registered: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def built_in(self) -> dict[str, Path]:
        """The file of each built-in part by name; `pass_.py` is `pass`, which Python reserves as a keyword."""
        files = sorted((Path(__file__).parent / self.folder).glob("*.py"))
        return {file.stem.rstrip("_"): file for file in files if file.stem not in ("__init__", "base")}

    def lines(self) -> dict[str, str]:
        """Every known name with a one-line description."""
        return {name: text.split("\n")[0] for name, text in self.documented().items()}

    def papers(self) -> dict[str, str]:
        """Every known name with its paper; empty if its docstring has no line `Paper: ...`."""
        return {name: paper_in(text) for name, text in self.documented().items()}

    def documented(self) -> dict[str, str]:
        """Every known name with its docstring: of the module, or of a registered class or function. Does not import the
        built-in parts."""
        load_plugins()
        own = {name: inspect.getdoc(part) or "" for name, part in self.registered.items()}
        return {name: _docstring(file) for name, file in self.built_in.items()} | own

    def has_card(self, name: str) -> bool:
        """Whether it has a page `docs/methods/NAME.md`, as every built-in method has."""
        return self in (LEARNERS, PERTURBATIONS) and name != "none" and name in self.built_in

    def knows(self, name: str) -> bool:
        """Whether there is a built-in or registered part of that name."""
        return name in self.built_in or name in self.registered

    def find(self, name: str) -> Any:
        """The part of that name."""
        if name in self.registered:
            return self.registered[name]
        if name in self.built_in:
            module = importlib.import_module(f"moca.{self.folder.replace('/', '.')}.{self.built_in[name].stem}")
            return _defined_in(module)
        if "." in name:
            part = by_path(name, self.name)
            self.refuse_others(part, name)
            return part
        load_plugins()
        if name in self.registered:
            return self.registered[name]
        alike = nearest(name.replace("+", "p"), [*self.built_in, *self.registered])  # der++ is derpp, not der
        for kind in KINDS.values():
            if name in kind.built_in and name != "none":
                alike = f"it is a {kind.name}: {kind.setting}={name}"
        if self in (LEARNERS, ENCODERS):  # Mammoth's --model is our learner
            alike = learner_meant(name) or alike
        if len(name.replace(",", " ").split()) > 1:
            alike = SEVERAL
        if Path(f"{name}.py").is_file():
            alike = f"a class in {name}.py is {name}.NAME"
        raise MocaError(f"unknown {self.name} {name!r}; {alike}")

    def refuse_others(self, part: Any, name: str) -> None:
        """Raise a `MocaError` for a part of another kind."""
        if kind_of(part) is not self:
            raise MocaError(f"'{name}' is no {self.name}; {self.what}")


LEARNERS = Kind("learner", "learner", "learners", "it must be derived from moca.Learner")
PERTURBATIONS = Kind("perturbation", "perturb", "perturb", "it must be derived from moca.Perturbation")
ENCODERS = Kind("model", "model", "models/encoders", "it must be a torch module, or a function that makes one")
TRACKERS = Kind("tracker", "track", "trackers", "it must be derived from moca.Tracker")
KINDS = {kind.setting: kind for kind in (LEARNERS, PERTURBATIONS, ENCODERS, TRACKERS)}
"""By setting."""


def register(part: Any = None, *, name: str | None = None) -> Any:
    """Register your own part under a name, for the life of the process; also usable as a decorator.

    Args:
        part: A class derived from `Learner`, `Perturbation` or `Tracker`; any other class or function is taken to make
            an encoder.
        name: The name; by default that of the class or function, in lower case.

    Returns:
        The part itself.
    """
    if part is None:
        return functools.partial(register, name=name)
    if not callable(part):
        raise MocaError(f"a class or a function is registered, not {part!r}")
    kind, called = kind_of(part), name or part.__name__.lower()
    if called in kind.built_in or kind.registered.get(called, part) is not part:
        raise MocaError(f"there is a {kind.name} '{called}' already; register yours under another name")
    if "." in called or ":" in called or "+" in called:
        raise MocaError(f"'{called}' cannot be a name: '.', ':' and '+' have a special meaning")
    kind.registered[called] = part
    return part


def kind_of(part: Any) -> Kind:
    """Which kind of part a class, a function or an object is."""
    from moca.learners.base import Learner
    from moca.perturb.base import Perturbation
    from moca.trackers.base import Tracker

    cls = part if isinstance(part, type) else type(part)
    bases = {Learner: LEARNERS, Perturbation: PERTURBATIONS, Tracker: TRACKERS}
    return next((kind for base, kind in bases.items() if issubclass(cls, base)), ENCODERS)


def called(part: Any) -> str:
    """The short name of a class, function or other callable."""
    name: str = getattr(part, "__name__", type(part).__name__)
    return name


def path_of(part: Any) -> str | None:
    """The registered name or dotted path by which a class or function can be found again, if there is one."""
    for kind in KINDS.values():
        for name, known in kind.registered.items():
            if known is part:
                return name
    module, name = getattr(part, "__module__", None), getattr(part, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name:
        return None
    if getattr(sys.modules.get(str(module)), name, None) is not part:
        return None
    ours = any(str(module).startswith(f"moca.{kind.folder.replace('/', '.')}.") for kind in KINDS.values())
    return str(module).rpartition(".")[2].rstrip("_") if ours else f"{module}.{name}"


@functools.cache
def own_source(part: Any) -> str:
    """The source of a user's class, with that of its bases, or of a function, as far as it is at hand."""
    own = (one for one in getattr(part, "__mro__", [part])
           if str(one.__module__).partition(".")[0] not in ("moca", "torch", "builtins"))  # fmt: skip
    return "".join(map(_source, own))


def _source(one: Any) -> str:
    with suppress(Exception):  # Python's own parser reads the file, which may just be being edited
        return inspect.getsource(one)
    return "".join(map(_source, filter(inspect.isfunction, vars(one).values()))) if isinstance(one, type) else ""


@functools.cache
def load_plugins() -> None:
    """Load the plugin packages, once."""
    for entry in entry_points(group=PLUGINS):
        try:
            entry.load()
        except Exception as error:
            why = f"{type(error).__name__}: {first_line(error)}"
            raise MocaError(f"the plugin '{entry.value}' cannot be loaded ({why}); repair or uninstall it") from None


@functools.cache
def _docstring(file: Path) -> str:
    """A module's docstring, read without importing the module."""
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def paper_in(text: str) -> str:
    """The paragraph after `Paper:` in a docstring, as one line."""
    found = re.search(r"^Paper: (.+?)(?:\n\s*\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def _defined_in(module: ModuleType) -> Any:
    """The part that a module defines: its only public class derived from `Part` or `Encoder`."""
    own = (value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__)
    parts = [cls for cls in own if not cls.__name__.startswith("_") and _is_part(cls)]
    if len(parts) != 1:
        raise TypeError(f"{module.__file__} must define one part, by whose file it is found; it has {len(parts)}")
    return parts[0]


def _is_part(cls: type) -> bool:
    return any(base.__name__ in ("Part", "Encoder") and base.__module__.startswith("moca.") for base in cls.__mro__)


def dotted(path: str) -> str:
    """A path with slashes as a dotted one."""
    return ".".join(name for name in path.split("/") if name.strip("."))


def by_path(path: str, kind: str) -> Callable[..., Any]:
    """The class or function at a dotted path; modules in the current folder are found too."""
    if "/" in path:
        raise MocaError(f"{kind} '{path}' is written as a dotted path: {dotted(path)}")
    module_name, _, name = path.rpartition(".")
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and module_name.startswith(str(error.name))
        why = (
            "there is no such module here; start where it is, or name its folder in PYTHONPATH"
            if missing
            else f"{type(error).__name__}: {error}"
        )
        raise MocaError(f"{kind} '{path}' cannot be loaded: {why}") from None
    finally:
        if added:
            sys.path.remove(here)
    part: Callable[..., Any] | None = getattr(module, name, None)
    if part is None or not callable(part):
        there = [own for own, value in vars(module).items() if getattr(value, "__module__", None) == module_name]
        raise MocaError(
            f"{kind} '{path}' cannot be loaded: module '{module_name}' has no class or function '{name}'"
            + (f"; {nearest(name, there)}" if there else "")
        )
    return part
