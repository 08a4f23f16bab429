"""Looking on while data are fetched, read and stored."""

from collections.abc import Callable

Watch = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def silent(stage: str, done: int, total: int) -> None:
    """Nobody looks on."""
