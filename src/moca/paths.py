"""Paths as a person writes them."""

from pathlib import Path


def from_here(path: Path) -> Path:
    """A path as one would write it in the current folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
