"""Model selection: chooses among combinations of settings on held-out training images, without using test images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moca.engine import plan as planning
from moca.engine.material import Material
from moca.engine.plan import Plan
from moca.engine.result import Result
from moca.errors import MocaError
from moca.settings import Own, Run, validate
from moca.settings.base import parse
from moca.settings.choosing import Choosing
from moca.streams import Stream

PROBLEM = ("data", "data_dir", "protocol", "memory", "tasks", "class_order", "arrival", "classes", "evaluate_every")
"""The settings that define the problem, not the method. Selection is done separately for each value of these."""
_FIRST_SEED = 1000
"""First seed for selection: far from the seeds that people test with, so that more of either can be added."""


@dataclass(frozen=True)
class Pick:
    """The choice for one method: a learner with a perturbation, on one problem."""

    label: str
    """The best combination."""
    among: Mapping[str, float]
    """Every combination with its mean accuracy on held-out images; NaN if one of its runs did not finish. Empty if
    there was only one combination."""
    tested_before: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Other combinations that had already been tested, each with its seeds; normally none."""


def asked(choose: Any) -> Choosing:
    """Parse the `choose` option in any of the accepted forms: 0.1, or '0.1:seeds=2'."""
    values = choose if isinstance(choose, dict) else parse(str(choose), Choosing.leading)
    return validate(Choosing, values, "choose")


def plan(
    settings: dict[str, Any], how: Choosing, tested: Sequence[int], out: Path, material: Material | None = None
) -> list[Plan]:
    """The selection runs: all combinations of every method that has several, with seeds not used for testing."""
    if "validation" in settings:
        raise MocaError("choose= says which share of the training images is held out; leave out validation=")
    data = settings.get("data")
    if any(isinstance(one, Stream) for one in (data if isinstance(data, list) else [data])):
        raise MocaError("choose= holds out training images, and a stream has its own tasks; give it a data set instead")
    seeds = seeds_apart(how.seeds or len(tested), tested)
    plans = planning.plan(settings | {"validation": how.share}, seeds, out, material)
    several = {label for labels in methods(plans) if len(labels) > 1 for label in labels}
    if not several:
        raise MocaError(
            "choose= needs several values to choose among for the same learner and perturbation, such as "
            "gaussian:lambda=0.5 and gaussian:lambda=1, or two learning rates"
        )
    return [p for p in plans if p.label in several]


def seeds_apart(count: int, tested: Sequence[int]) -> list[int]:
    """`count` seeds that are not used for testing."""
    return [seed for seed in range(_FIRST_SEED, _FIRST_SEED + count + len(tested)) if seed not in tested][:count]


def methods(plans: Sequence[Plan]) -> list[list[str]]:
    """Groups of labels among which one is chosen each: all combinations of one learner with one perturbation on one
    problem, with any options and other settings."""
    groups: dict[tuple[Any, ...], dict[str, None]] = {}
    for p in plans:
        groups.setdefault(_method(p.settings), {})[p.label] = None
    return [list(labels) for labels in groups.values()]


def _method(run: Run) -> tuple[Any, ...]:
    problem = (getattr(run, name) for name in PROBLEM)
    return (run.learner.name, run.perturb.name, *(id(v.object) if isinstance(v, Own) else str(v) for v in problem))


def accuracies(plans: Sequence[Plan], results: Sequence[Result]) -> dict[str, float]:
    """The mean final accuracy of each combination over its seeds; NaN if one of them did not finish."""
    found = {result.folder: result.final_accuracy for result in results}
    by_label: dict[str, list[float]] = {}
    for p in plans:
        by_label.setdefault(p.label, []).append(found.get(p.folder.absolute(), math.nan))
    return {label: math.fsum(several) / len(several) for label, several in by_label.items()}


def best(labels: Sequence[str], accuracies: Mapping[str, float]) -> Pick | None:
    """The combination with the best mean accuracy, the first in case of ties; None if all are NaN."""
    if len(labels) == 1:
        return Pick(labels[0], {})
    among = {label: accuracies[label] for label in labels}
    known = [label for label, accuracy in among.items() if not math.isnan(accuracy)]
    return Pick(max(known, key=among.__getitem__), among) if known else None
