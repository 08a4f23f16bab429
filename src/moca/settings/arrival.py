"""Settings of how samples arrive: what a task brings, and how far the stream is from a clean sequence of tasks."""

from typing import ClassVar, Literal

from pydantic import Field

from moca.settings.base import Settings


class Arrival(Settings):
    """How samples arrive."""

    leading: ClassVar[str] = "by"
    by: Literal["classes", "domains"] = Field(
        "classes", description="what a task brings: classes of its own, or other images for the same labels"
    )
    blur: float = Field(0.0, ge=0, le=10, description="standard deviation, in tasks, of how early or late a sample is")
    returns: float = Field(0.0, ge=0, lt=1, description="share of the samples of a class that come in later tasks")
    imbalance: float = Field(1.0, gt=0, le=1, description="samples of the rarest class for one of the most frequent")
