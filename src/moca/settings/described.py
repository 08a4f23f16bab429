"""Saved settings whose own parts cannot be loaded here, such as a learner in a file that is elsewhere.

What settings.json says about these parts, a name and options, is enough to report a run.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from pydantic import create_model

from moca.settings.choice import Absent
from moca.settings.run import PARTS


def with_described_parts(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The saved settings with choices for the user's own parts that have name and options, but cannot be made."""
    return dict(saved) | {
        setting: _choice(json.dumps(part))
        for setting, kind in PARTS.items()
        if isinstance(part := saved.get(setting), dict)
        and not part.get("own")
        and str(part.get("name")) not in kind.built_in
    }


@functools.cache
def _choice(saved: str) -> Absent:
    """The choice of a part as settings.json has it. Its defaults are unknown, so every option counts as set."""
    values = json.loads(saved)
    fields: dict[str, Any] = {name: (Any, None) for name in values if name != "name"}
    made: Absent = create_model("Described", __base__=Absent, name=(str, values.get("name")), **fields)(**values)
    return made
