"""Paths for display."""

from pathlib import Path


def from_here(path: Path) -> Path:
    """The path relative to the current folder, if it lies below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
