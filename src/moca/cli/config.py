"""Read and write options as TOML, YAML or JSON files, with the same names as on the command line."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from moca import atomic
from moca.errors import Interrupted, MocaError, first_line
from moca.settings import Run, Settings, word
from moca.settings.base import takes
from moca.settings.suggestions import refuse_unknown

_IN_PYTHON = ("progress", "say", "watch")
"""Arguments of `moca.run` and `moca.compare` that only Python can pass."""


@contextmanager
def with_config(options: dict[str, Any], config: Path | None, save: Path | None) -> Iterator[dict[str, Any]]:
    """Merge the given options with those of the file `config`, and write the result to `save`; given options win.

    If the body raises a `MocaError`, a file written here is removed again: it would block the corrected command.
    """
    given = {name: value for name, value in options.items() if value is not None}
    merged = (_known(read(config), options, config) if config else {}) | given
    if "seeds" in given:  # of a comparison, with the options of a run
        merged.pop("seed", None)
    created = save is not None and write(save, merged)
    try:
        yield merged
    except MocaError as error:
        if created and save and not isinstance(error, Interrupted):
            save.unlink(missing_ok=True)
        raise


def _known(values: dict[str, Any], own: Iterable[str], path: Path) -> dict[str, Any]:
    """The options of a file, unchanged; raise a `MocaError` if the command lacks one of them."""
    for name in _IN_PYTHON:
        if name in values:
            raise MocaError(f"'{name}' in {path} is an argument in Python only; remove it")
    refuse_unknown(values, own, f"in {path}")
    return values


def read(path: Path) -> dict[str, Any]:
    """The options of a file, with underscores in their names as in Python."""
    try:
        text = path.read_text(encoding="utf-8")
        values = _reader(path)(text)
    except OSError as error:
        raise MocaError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise MocaError(f"{path} is not what its name says: {first_line(error)}") from None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise MocaError(f"{path} must hold options by their names, such as lr = 0.1")
    return _each_once(path, [(key.replace("-", "_"), value) for key, value in values.items() if value is not None])


def _reader(path: Path) -> Callable[[str], Any]:
    """The parser for a file, by its suffix; TOML by default."""
    match path.suffix:
        case ".yaml" | ".yml":
            return partial(_yaml, path)
        case ".json":
            return partial(json.loads, object_pairs_hook=partial(_each_once, path))
    return tomllib.loads


def _each_once(path: Path, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping of these pairs; parsers of JSON and YAML would keep the last value of a key that occurs twice."""
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise MocaError(f"'{key}' is given twice in {path}; remove one of them")
    return dict(pairs)


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MocaError("YAML files need the extra yaml: pip install 'moca-cl[yaml]'; or use TOML") from None
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        if isinstance(node, yaml.MappingNode):
            _each_once(path, [(str(key.value), value) for key, value in node.value])
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def write(path: Path, options: dict[str, Any]) -> bool:
    """Write options so that `read` returns them; return whether the file was created.

    An existing file is never overwritten, and must hold the same options. Text, numbers and lists are written the same
    way in JSON, TOML and YAML; what the command line gave as text is a number where a setting takes numbers.
    """
    if path.suffix not in (".toml", ".yaml", ".yml", ".json"):
        raise MocaError(f"'{path}' must end in .toml, .yaml or .json: that says how the options are written")
    options = _written(options)
    if path.exists():
        if _written(read(path)) != options:
            raise MocaError(f"'{path}' already exists with other options; remove it, or choose another --save-config")
        return False
    sign = " = " if path.suffix == ".toml" else ": "
    text = "".join(f"{key}{sign}{json.dumps(value, ensure_ascii=False)}\n" for key, value in options.items())
    if path.suffix == ".json":
        text = json.dumps(options, indent=2, ensure_ascii=False) + "\n"
    atomic.write(path, text, "choose another --save-config")
    return True


def _written(options: dict[str, Any]) -> dict[str, Any]:
    return {name: _as_number(name, _short(value)) for name, value in options.items()}


def _as_number(name: str, value: Any) -> Any:
    """Text as a number, or as true or false, if the setting of that name takes one; any other value unchanged."""
    if isinstance(value, list):
        return [_as_number(name, one) for one in value]
    if not isinstance(value, str) or name not in Run.model_fields:
        return value
    taken: Any = Run.model_fields[name].annotation
    if isinstance(taken, type) and issubclass(taken, Settings) and taken.leading in taken.model_fields:
        taken = taken.model_fields[taken.leading].annotation  # such as the size of the memory
    for kind, read in ((int, int), (float, float), (bool, {"true": True, "false": False}.__getitem__)):
        with suppress(ValueError, KeyError):
            if takes(taken, kind):
                return read(value)
    return value


def _short(value: Any) -> Any:
    """A choice that is given as a table in its short form, such as wap:lambda=0.5; any other value unchanged.

    The leading field, such as the name, comes first without its key; fields that are None are left out.
    """
    if isinstance(value, list):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        name_first = {"name": value.get("name")} | value
        (_, first), *options = ((key, word(field)) for key, field in name_first.items() if field is not None)
        return f"{first}:{','.join(f'{key}={field}' for key, field in options)}" if options else first
    return value
