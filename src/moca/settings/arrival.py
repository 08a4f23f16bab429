"""Settings of how samples arrive: what is new in a task, and how far the stream is from a clean sequence of tasks."""

from typing import ClassVar, Literal

from pydantic import Field

from moca.settings.base import Settings


class Arrival(Settings):
    """How samples arrive."""

    leading: ClassVar[str] = "by"
    by: Literal["classes", "domains"] = Field(
        "classes", description="what is new in a task: its classes, or its images, with the same labels in all tasks"
    )
    blur: float = Field(0.0, ge=0, le=10, description="standard deviation, in tasks, of how early or late a sample is")
    returns: float = Field(0.0, ge=0, lt=1, description="share of the samples of a class that arrive in later tasks")
    imbalance: float = Field(
        1.0, gt=0, le=1, description="samples of the rarest class, as a share of those of the most frequent"
    )
