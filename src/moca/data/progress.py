"""Progress callbacks, for work in stages: downloading, reading, encoding, learning."""

from collections.abc import Callable

Watch = Callable[[str, int, int], None]
"""Progress callback: called with (stage, done, total)."""


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""
