"""Experiments as data."""

import tomllib
from importlib.resources import files
from typing import Any


def load_recipe(name: str) -> dict[str, Any]:
    """The tables of one recipe file."""
    return tomllib.loads((files(__name__) / f"{name}.toml").read_text())
