"""Settings of the replay memory."""

import re
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from moca.settings.base import Settings

_UNITS = {"k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}


class Memory(Settings):
    """The replay memory."""

    leading: ClassVar[str] = "size"
    size: int = Field(
        200, ge=0, le=10**12, description="number of samples, in total or per class; or bytes they may take: 50MB"
    )
    per: Literal["total", "class", "bytes"] = Field(
        "total",
        description="what the size counts; class: size x number of classes in total; bytes: as many samples as fit",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_unit(cls, value: Any) -> Any:
        """Convert a size such as 50MB to bytes."""
        size = value.get("size") if isinstance(value, dict) else None
        match = (
            re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)b\s*", size, re.IGNORECASE) if isinstance(size, str) else None
        )
        if match is None or value.get("per", "bytes") != "bytes":
            return value
        return value | {"size": int(float(match[1]) * _UNITS[match[2].lower()]), "per": "bytes"}

    @field_validator("size", mode="before")
    @classmethod
    def _a_number(cls, size: Any) -> Any:
        """Refuse a size that is neither a number nor has a known unit."""
        if isinstance(size, str) and not re.fullmatch(r"\s*[+-]?\d+\s*", size):
            raise ValueError("give a number of samples, such as 500, or what they may take, such as 50MB (kB, MB, GB)")
        return size
