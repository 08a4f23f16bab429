"""Experiments as data.

Here is how runs are trained by default (`protocols.toml`), the demo (`digits.toml`), and the paper: every number of it
(`cells`), the runs that it needs (`experiment`), those that were done (`found`), what the others cost (`cost`) and how
they are carried out (`missing`), and all of it side by side (`standing`, `page`).
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load_recipe(name: str) -> dict[str, Any]:
    """The tables of one recipe file, to be read only."""
    return tomllib.loads((files(__name__) / f"{name}.toml").read_text("utf-8"))
