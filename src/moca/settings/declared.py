"""Which saved settings this version of moca does not know. Built-in parts are read, not imported: that needs torch."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moca.settings.run import PARTS, Run


def unknown_settings(saved: Mapping[str, Any]) -> list[str]:
    """The names in saved settings that are no settings of a run here, or no options of its built-in parts."""
    unknown = set(saved.keys() - Run.model_fields.keys())
    for setting, kind in PARTS.items():
        part = saved.get(setting)
        if isinstance(part, dict) and not part.get("own") and part.get("name") in kind.built_in:
            known = declared_in(kind.built_in[part["name"]])
            unknown |= {f"{setting}.{option}" for option in part.keys() - known - {"name"}}
    return sorted(unknown)


@functools.cache
def declared_in(file: Path) -> frozenset[str]:
    """The options that a part's file declares, by name and alias, and those of the files beside it that it imports,
    since its class may be derived from theirs."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.AnnAssign(target=ast.Name(name), value=ast.Call(func=ast.Name("option"), keywords=about)):
                names |= {name, *(ast.literal_eval(given.value) for given in about if given.arg == "alias")}
            case ast.FunctionDef(name="__init__", args=taken):  # of an encoder
                names |= {one.arg for one in taken.args}
            case ast.ImportFrom(module=str(module)) if module.split(".")[-2:-1] == [file.parent.name]:
                names |= declared_in(file.with_name(f"{module.rpartition('.')[2]}.py"))
    return frozenset(names)
