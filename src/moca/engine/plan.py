"""Which runs a comparison has: every combination of the settings that vary, each with every seed, and its name."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moca.engine.device import check_execution
from moca.engine.material import Material
from moca.engine.schedule import Schedule
from moca.errors import MocaError, MocaWarning, Unfit
from moca.settings import Choice, Own, Run, Settings, spelt, validate
from moca.streams import Stream


@dataclass(frozen=True)
class Plan:
    """One run of a comparison: what to run on which stream, what to call it, and where; and what was asked for."""

    label: str
    settings: Run
    stream: Stream
    folder: Path
    given: Run | None = None

    @property
    def steps(self) -> int:
        """How many it has."""
        return Schedule(self.settings, self.stream).total

    @property
    def tasks(self) -> int:
        """How many it learns, one after the other."""
        return len(Schedule(self.settings, self.stream).tasks)


def plan(settings: dict[str, Any], seeds: Sequence[int], out: Path) -> list[Plan]:
    """Every combination of the settings given as lists, each with every seed. Where a learner cannot take one of the
    perturbations, that pair is left out with a warning, as long as something is left."""
    if "seed" in settings:
        raise MocaError("a comparison takes seeds=, how many or which ones, instead of seed=")
    varied = {key: values for key, values in settings.items() if isinstance(values, list)}
    fixed = {key: value for key, value in settings.items() if key not in varied}
    plans, unfit, material = [], dict[tuple[str, str], Unfit](), Material()
    for combination in itertools.product(*varied.values()):
        chosen = dict(zip(varied, combination, strict=True))
        for seed in seeds:
            try:
                given = validate(Run, fixed | chosen | {"seed": seed})
                run, stream = material(given)
            except Unfit as error:
                unfit.setdefault((error.learner, error.perturb), error)
                continue
            check_execution(run)
            name = label(given, set(varied))
            plans.append(Plan(name, run, stream, out / folder_name(f"{name}-s{seed}"), given))
    if unfit and not plans:
        raise next(iter(unfit.values()))
    for (learner, why), refused in _by_reason(unfit.values()).items():
        # From here whoever asks: runs to choose by are planned as well as those to test, and one line is enough.
        left_out = f"{learner} with {', '.join(refused)} is left out: {why}"
        warnings.warn(MocaWarning(left_out), stacklevel=1)
    if not plans:
        raise MocaError("nothing to run: give at least one seed and one value of every setting")
    _refuse_same(plans)
    return plans


def _by_reason(unfit: Iterable[Unfit]) -> dict[tuple[str, str], list[str]]:
    """The perturbations that a learner does not take for the same reason."""
    refused: dict[tuple[str, str], list[str]] = {}
    for error in unfit:
        refused.setdefault((error.learner, error.why), []).append(error.perturb)
    return refused


def _refuse_same(plans: Sequence[Plan]) -> None:
    """That no run is there twice, under one name or under two."""
    by_settings, by_folder = dict[tuple[Any, ...], Plan](), dict[Path, Plan]()
    for p in plans:
        if (same := by_settings.setdefault(_known(p.settings), p)) is not p:
            which = "two of the runs are the same"
            if same.label != p.label:
                which = f"'{same.label}' and '{p.label}' are the same run, as what is left open is filled in"
            raise MocaError(f"{which}; give each value and seed once")
        if by_folder.setdefault(p.folder, p) is not p:
            raise MocaError(
                f"two runs that differ would both be called '{p.label}'; give what differs names of its own: data an "
                "attribute 'name' (moca.dataset(..., name=...)), a model the function that makes it"
            )


def _known(run: Run) -> tuple[Any, ...]:
    """What tells a run from others: its settings, and objects that no name leads back to by their identity."""
    return tuple(_told(value) for _, value in run)


def _told(value: Any) -> tuple[str, int]:
    if isinstance(value, Own):
        return value.name, id(value.object)
    if isinstance(value, Choice) and value.own:
        return str(value.__dict__), id(value.part if value.held is None else value.held)
    return str(value.__dict__ if isinstance(value, Settings) else value), 0


def label(run: Run, varied: Iterable[str] = ()) -> str:
    """What a run is called: learner and perturbation with the options given, and whatever else varies."""
    name = _called(run.learner) + f"+{_called(run.perturb)}" * (run.perturb.name != "none")
    others = [f"{key}={spelt(getattr(run, key))}" for key in sorted(set(varied) - {"learner", "perturb", "seed"})]
    return " ".join([name, *others])


def _called(choice: Choice) -> str:
    """With the options given; of one that has all of them, as settings.json does, with those that say something."""
    every = choice.model_fields_set == type(choice).model_fields.keys()
    return choice.in_full() if every and choice.options else choice.as_given()


def in_short(run: Run) -> str:
    """Learner and perturbation of a run that leaves nothing open: with the options that differ from their defaults."""
    return str(run.learner) + f"+{run.perturb}" * (run.perturb.name != "none")


def folder_name(name: str) -> str:
    """The name with everything replaced that a file system or a shell may not like."""
    return re.sub(r"[^A-Za-z0-9+=._-]+", "_", name)
