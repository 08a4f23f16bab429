"""Settings as older versions of moca wrote them."""

from typing import Any


def renewed(raw: dict[str, Any]) -> dict[str, Any]:
    """Settings of version 0.1 as today's: the optimiser and the schedule were five settings of their own then, and
    passes one of every learner."""
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
