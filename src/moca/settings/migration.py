"""Converts settings that older versions of moca wrote."""

from typing import Any


def renewed(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert settings of version 0.1, where optimiser and schedule were five separate settings and `passes` was a
    setting for every learner. Newer ones are returned as they are."""
    if "lr_milestones" not in raw:
        return raw
    new = dict(raw)
    at, by = new.pop("lr_milestones"), new.pop("lr_factor")
    momentum, decay = new.pop("momentum"), new.pop("weight_decay")
    new["schedule"] = {"name": "steps", "at": at, "by": by} if at else {"name": "constant"}
    new["optimiser"] = {"name": "sgd", "momentum": momentum, "weight_decay": decay}
    if new.pop("passes", "separate") == "concatenated":
        new["learner"] = {**new["learner"], "passes": "concatenated"}
    return new
