"""The runs of a comparison: every combination of the settings that vary, with every seed, each with a name."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moca.engine.device import check_execution
from moca.engine.folder import RESULT, SETTINGS
from moca.engine.material import Material
from moca.engine.request import CHOOSING
from moca.engine.schedule import Schedule
from moca.errors import MocaError, MocaWarning, Unfit
from moca.settings import Choice, Label, Named, Own, Run, Settings, spelt, validate
from moca.settings.method import METHODS, method
from moca.streams import Stream


@dataclass(frozen=True)
class Plan:
    """One run of a comparison."""

    label: str
    settings: Run
    """Its complete settings."""
    stream: Stream
    folder: Path
    given: Run | None = None
    """Its settings as given."""

    @property
    def done(self) -> bool:
        """Whether it has ended before."""
        return (self.folder / RESULT).is_file()

    @property
    def begun(self) -> bool:
        """Whether it has been started."""
        return (self.folder / SETTINGS).is_file()

    @property
    def steps(self) -> int:
        """The number of steps."""
        return Schedule(self.settings, self.stream).total

    @property
    def tasks(self) -> int:
        """The number of tasks that it trains one after the other."""
        return len(Schedule(self.settings, self.stream).tasks)


def plan(settings: dict[str, Any], seeds: Sequence[int], out: Path, material: Material | None = None) -> list[Plan]:
    """Every combination of the settings given as lists, each with every seed. `methods` are pairs of learner and
    perturbation in short, such as er+wap, in place of every combination of the two.

    A learner and a perturbation that are incompatible are skipped with a warning, unless they were given as a method or
    nothing would be left. A learner that keeps no samples is run once for all values of `memory`, unless the folder has
    its runs with each, of an older moca. With `material`, data sets that it has already are not read again.
    """
    if "seed" in settings:
        raise MocaError("a comparison takes seeds=, how many or which ones, instead of seed=")
    if METHODS in settings and settings.keys() & {"learner", "perturb"}:
        raise MocaError("methods= names learners and perturbations; leave out learner= and perturb=")
    varied = {key: values for key, values in settings.items() if isinstance(values, list)}
    for name, values in {"seeds": seeds, **varied}.items():
        if not values:
            raise MocaError(f"nothing to run: {name} is empty; give at least one")
    fixed = {key: value for key, value in settings.items() if key not in varied}
    plans, unfit, material = [], dict[tuple[str, str], Unfit](), material or Material()
    for combination in itertools.product(*varied.values()):
        chosen = dict(zip(varied, combination, strict=True))
        if METHODS in chosen:
            chosen |= method(chosen.pop(METHODS))
        for seed in seeds:
            try:
                given = validate(Run, fixed | chosen | {"seed": seed})
                if "memory" in varied and not given.uses_memory and not _has_runs(out, str(label(given, varied))):
                    if chosen["memory"] != varied["memory"][0]:
                        continue  # it is the same run with each of them
                    without = {name: value for name, value in chosen.items() if name != "memory"}
                    given = validate(Run, fixed | without | {"seed": seed})
                run, stream = material(given)
            except Unfit as error:
                if METHODS in varied:
                    raise MocaError(f"'{error.learner}' cannot take '{error.perturb}': {error.why}") from None
                unfit.setdefault((error.learner, error.perturb), error)
                continue
            check_execution(run)
            name = str(label(given, varied))
            plans.append(Plan(name, run, stream, out / folder_name(f"{name}-s{seed}"), given))
    if unfit and not plans:
        raise next(iter(unfit.values()))
    for (learner, why), refused in _by_reason(unfit.values()).items():
        # stacklevel=1 always names this line, so Python shows the warning once although `choose` plans runs twice.
        left_out = f"{learner} with {', '.join(refused)} is left out: {why}"
        warnings.warn(MocaWarning(left_out), stacklevel=1)
    _refuse_same(plans)
    return plans


def _has_runs(out: Path, name: str) -> bool:
    """Whether a comparison's folder has runs of this name, of which some may be there to choose by."""
    return any(found for place in (out, out / CHOOSING) for found in place.glob(f"{folder_name(name)}-s*/{SETTINGS}"))


def _by_reason(unfit: Iterable[Unfit]) -> dict[tuple[str, str], list[str]]:
    """The skipped perturbations, by learner and reason."""
    refused: dict[tuple[str, str], list[str]] = {}
    for error in unfit:
        refused.setdefault((error.learner, error.why), []).append(error.perturb)
    return refused


def _refuse_same(plans: Sequence[Plan]) -> None:
    """Raise a `MocaError` if two runs are the same, or have the same name."""
    by_settings, by_folder = dict[tuple[Any, ...], Plan](), dict[Path, Plan]()
    for p in plans:
        if (same := by_settings.setdefault(tuple(_key(value) for _, value in p.settings), p)) is not p:
            which = f"'{p.label}' with seed {p.settings.seed} is given twice"
            if same.label != p.label:
                which = f"'{same.label}' and '{p.label}' are the same run with the recipe's defaults"
            raise MocaError(f"{which}; give each value and seed once")
        if by_folder.setdefault(p.folder, p) is not p:
            raise MocaError(
                f"two runs that differ would both be called '{p.label}'; give what differs a name: data by an "
                "attribute 'name' (moca.dataset(..., name=...)), a model by the function that makes it, a learner or "
                "perturbation by a moca.option in place of __init__"
            )


def _key(value: Any) -> tuple[str, int]:
    """A key that is equal for equal values of a setting; Python objects are compared by identity."""
    if isinstance(value, Own | Choice) and value.own:
        return str(value.__dict__), id(value.object)
    return str(value.__dict__ if isinstance(value, Settings) else value), 0


def label(run: Run, varied: Iterable[str] = ()) -> Label:
    """The name of a run: learner and perturbation with the given options, and the other given settings that vary."""
    others = sorted(run.model_fields_set.intersection(varied) - {"learner", "perturb", "seed"})
    settings = tuple(f"{key}={spelt(getattr(run, key))}" for key in others)
    return Label(_called(run.learner), _called(run.perturb), settings)


def _called(choice: Choice) -> Named:
    """Its name with the given options; if all are set, as when read from settings.json, only with those that differ
    from the defaults or that a recipe may set."""
    every = choice.model_fields_set == type(choice).model_fields.keys()
    return choice.in_full() if every and choice.options else choice.naming(choice.model_fields_set)


def in_short(run: Run) -> str:
    """Learner and perturbation of a run with complete settings, with the options that differ from the defaults."""
    return str(run.learner) + f"+{run.perturb}" * (run.perturb.name != "none")


def folder_name(name: str) -> str:
    """The name with all characters replaced that are unsafe in a file system or a shell."""
    return re.sub(r"[^A-Za-z0-9+=._-]+", "_", name)
