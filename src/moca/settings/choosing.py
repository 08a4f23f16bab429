"""How the best of several combinations is chosen before it is tested."""

from typing import ClassVar

from pydantic import Field

from moca.settings.base import Settings


class Choosing(Settings):
    """On which share of the training images, held out, and with how many seeds."""

    leading: ClassVar[str] = "share"
    share: float = Field(0.1, gt=0, lt=1, description="of the training images, held out to choose by")
    seeds: int | None = Field(None, ge=1, description="to choose with, as many as to test with unless given")
