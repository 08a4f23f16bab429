"""Settings of the replay memory."""

from typing import ClassVar, Literal

from pydantic import Field

from moca.settings.base import Settings


class Memory(Settings):
    """The replay memory."""

    leading: ClassVar[str] = "size"
    size: int = Field(200, ge=0, le=1_000_000_000, description="samples in all, or of each class")
    per: Literal["total", "class"] = Field("total", description="what the size counts; a class: size x classes in all")
