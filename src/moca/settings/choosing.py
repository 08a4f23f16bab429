"""Settings of how the best of several combinations is chosen before it is tested."""

from typing import ClassVar

from pydantic import Field

from moca.settings.base import Settings


class Choosing(Settings):
    """The share of the training images that is held out to choose by, and the number of seeds."""

    leading: ClassVar[str] = "share"
    share: float = Field(0.1, gt=0, lt=1, description="share of the training images that is held out to choose by")
    seeds: int | None = Field(None, ge=1, description="number of seeds to choose with [default: as for testing]")
