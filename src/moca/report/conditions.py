"""The conditions of the runs in words, and the commands that reproduce them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from moca.engine.result import Result
from moca.report.grouping import distinct, judged
from moca.report.methods import Setting
from moca.settings import RECIPE, Choice, Run, Seeds, word
from moca.settings.arrival import Arrival


def sentences(setting: Setting) -> str:
    """One paragraph: data, tasks, memory, epochs, seeds, how samples arrive, what is measured, hardware, versions."""
    results, methods = setting.results, len(setting.rows)
    runs = [r.settings for r in results]
    replaying = [run for run in runs if run.uses_memory]
    memory = f" with a memory of {_memory(replaying)}," if replaying else ""
    return (
        f"{'One method learns' if methods == 1 else f'{methods} methods learn'} the classes of "
        f"{_either(run.data_name for run in runs)} in {_count(distinct(_tasks(r) for r in results), 'task')}, one "
        f"after the other,{memory} {_count(distinct(run.epochs for run in runs), 'epoch')} a task and "
        f"{_seeds(distinct(run.seed for run in runs))}.{_arriving(runs[0].arrival)} "
        f"After each task {judged(runs[0])} of every task are classified, all classes competing. {_where(results)}"
    )


def _arriving(how: Arrival) -> str:
    """How the stream differs from clean tasks with disjoint classes, in a sentence; empty if it does not."""
    deviations = {
        "every task has other images for the same labels": how.by == "domains",
        f"the rarest class has {how.imbalance:g} samples for one of the most frequent": how.imbalance < 1,
        f"{100 * how.returns:g} % of the samples of a class come in later tasks": how.returns > 0,
        f"boundaries are blurred, with a standard deviation of {how.blur:g} tasks": how.blur > 0,
    }
    sentence = "; ".join(words for words, applies in deviations.items() if applies)
    return f" {sentence[0].upper()}{sentence[1:]}." if sentence else ""


def _tasks(result: Result) -> int | str:
    """How many tasks a run had; if it stopped before any evaluation, how many its settings asked for."""
    return len(result.accuracy_matrix[0]) if result.accuracy_matrix else str(result.settings.tasks or "its")


def command(results: Sequence[Result]) -> str | None:
    """The `moca compare` command that reproduces exactly these runs, if there is one."""
    runs = [r.settings for r in results]
    values = {name: distinct(getattr(run, name) for run in runs) for name in Run.model_fields if name != "seed"}
    seeds = distinct(run.seed for run in runs)
    numbers = [s.seed for s in seeds]
    if math.prod(map(len, values.values())) * len(seeds) != len(runs) or seeds != [Seeds(seed=n) for n in numbers]:
        return None
    chosen = numbers != list(range(len(numbers)))
    return _command("compare", runs, values, ["--seed", *numbers] if chosen else ["--seeds", len(numbers)])


def run_command(result: Result) -> str | None:
    """The `moca run` command that reproduces exactly this run, if there is one."""
    run = result.settings
    values = {name: [getattr(run, name)] for name in Run.model_fields if name != "seed"}
    return _command("run", [run], values, ["--seed", run.seed])


def _command(verb: str, runs: Sequence[Run], values: dict[str, list[Any]], seeds: Sequence[object]) -> str | None:
    """The command with all settings spelled out, none left to recipes.

    None if a setting is available only in Python, or only by leaving its option out.
    """
    if any(run.in_python_only for run in runs):
        return None
    words, default = ["moca", verb], Run()
    for name, given in values.items():
        if given != [getattr(default, name)] or (name in RECIPE and given != [None]):  # recipes have other defaults
            if None in given:
                return None
            exact = [str(value.in_full()) if isinstance(value, Choice) else word(value) for value in given]
            words += [f"--{name.replace('_', '-')}", *exact]
    return shlex.join([*words, *map(str, seeds)])


def _where(results: Sequence[Result]) -> str:
    packed: dict[str, int] = {}
    for kept in (r.environment for r in results if r.environment):
        threads = kept.get("threads")
        versions = f"moca {kept.get('moca', '?')}, PyTorch {kept.get('torch', '?')}, Python {kept.get('python', '?')}"
        cpu_threads = f", {_count([threads], 'CPU thread')}" if threads else ""
        place = f"{kept.get('device', 'unknown hardware')}{cpu_threads} ({versions})"
        packed[place] = max(packed.get(place, 1), kept.get("packed", 1))
    places = [f"{place}, up to {runs} runs at a time" if runs > 1 else place for place, runs in packed.items()]
    return f"Run on {'; '.join(places)}." if places else ""


def _memory(runs: Sequence[Run]) -> str:
    units = {"total": "samples", "class": "samples a class", "bytes": "bytes"}
    sizes = {unit: distinct(run.memory.size for run in runs if run.memory.per == unit) for unit in units}
    return " or ".join(f"{_either(sizes[unit])} {called}" for unit, called in units.items() if sizes[unit])


def _seeds(seeds: Sequence[Seeds]) -> str:
    if len(seeds) == 1:
        return f"one seed ({seeds[0]})"
    seeds = sorted(seeds, key=lambda one: one.seed)
    first, last = seeds[0].seed, seeds[-1].seed
    in_a_row = len(seeds) > 2 and seeds == [Seeds(seed=number) for number in range(first, last + 1)]
    return f"{len(seeds)} seeds ({f'{first} to {last}' if in_a_row else ', '.join(map(str, seeds))})"


def _count(numbers: Sequence[object], noun: str) -> str:
    return f"{_either(numbers)} {noun}{'' if list(numbers) == [1] else 's'}"


def _either(values: Iterable[object]) -> str:
    *others, last = sorted({str(value) for value in values}, key=lambda text: (len(text), text))  # numbers by size
    return f"{', '.join(others)} or {last}" if others else last
