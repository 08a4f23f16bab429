"""Experiments as data.

The default training recipes (`protocols.toml`), the demo (`digits.toml`), and the paper: every number in it (`cells`),
how some are chosen (`selection`), the runs that each needs (`experiment`), finished runs (`matching`), the cost of the
missing ones (`cost`) and how they are run (`missing`), and the comparison of all numbers with ours (`status`, `page`).
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load_recipe(name: str) -> dict[str, Any]:
    """The content of a recipe file. It is cached: do not modify it."""
    return tomllib.loads((files(__name__) / f"{name}.toml").read_text("utf-8"))
