"""Settings of the replay memory."""

import re
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from moca.settings.base import Settings

_UNITS = {"k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}


class Memory(Settings):
    """The replay memory."""

    leading: ClassVar[str] = "size"
    size: int = Field(200, ge=0, le=10**12, description="samples in all, or of each class; or what they take: 50MB")
    per: Literal["total", "class", "bytes"] = Field(
        "total", description="what the size counts; a class: size x classes in all; bytes: as many samples as fit"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_unit(cls, value: Any) -> Any:
        """A size such as 50MB is in bytes."""
        size = value.get("size") if isinstance(value, dict) else None
        told = (
            re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)b\s*", size, re.IGNORECASE) if isinstance(size, str) else None
        )
        if told is None or value.get("per", "bytes") != "bytes":
            return value
        return value | {"size": int(float(told[1]) * _UNITS[told[2].lower()]), "per": "bytes"}

    @field_validator("size", mode="before")
    @classmethod
    def _a_number(cls, size: Any) -> Any:
        """What has no unit that is known says which there are."""
        if isinstance(size, str) and not re.fullmatch(r"\s*[+-]?\d+\s*", size):
            raise ValueError("give a number of samples, such as 500, or what they may take, such as 50MB (kB, MB, GB)")
        return size
