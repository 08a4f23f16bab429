"""Defaults that work: what a run leaves open is filled in from its protocol's recipe and from its methods' own."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from typing import Any

from moca.data import Dataset
from moca.data.protocol import setting_of
from moca.engine.device import pick_device
from moca.settings import TRAINING, Run, validate, word


def complete(run: Run, dataset: Dataset) -> Run:
    """The run with nothing left open. What was given stays; a run that is complete comes back as it is."""
    protocol = dataset.protocol
    kind = setting_of(protocol.name)
    own = protocol.recipe or own_recipe(dataset, pick_device(run.device).type)
    memory = run.memory
    if "memory" in own and "memory" not in run.model_fields_set:
        memory = validate(Run, {"memory": own["memory"]}).memory
    by_set = f"{dataset.name}/{kind}"
    places = [kind, protocol.name, by_set, f"{dataset.name}/{protocol.name}"]
    if memory.per == "total":
        places.append(f"{by_set}/{memory.size}")
    learner = run.learner
    if "learner" in protocol.recipe and "learner" not in run.model_fields_set:
        learner = validate(Run, {"learner": protocol.recipe["learner"]}).learner
    found = _found(learner.part and learner.make().recipes, places)
    options = {name: value for name, value in found.items() if name in learner.options}
    recipe: dict[str, Any] = {
        "tasks": protocol.tasks_for(len(dataset.classes)),
        "class_order": protocol.class_order,
        "image_size": protocol.image_size,
        "model": "convnet",
        **own,
        **{name: value for name, value in found.items() if name not in options},
    }
    open_ones = {name: value for name, value in recipe.items() if _open(run, name)}
    moved = run.perturb.with_defaults(_found(run.perturb.part and run.perturb.part.recipes, places))
    return validate(Run, dict(run) | open_ones | {"learner": learner.with_defaults(options), "perturb": moved})


def _open(run: Run, name: str) -> bool:
    """Whether a setting was left to the recipe: not given, or given as None, as Python and older settings.json do."""
    return name not in run.model_fields_set or getattr(run, name) is None


def _found(recipes: Mapping[str, Mapping[str, Any]] | None, places: Iterable[str]) -> dict[str, Any]:
    return {key: value for place in places for key, value in (recipes or {}).get(place, {}).items()}


def own_recipe(dataset: Dataset, device: str) -> dict[str, Any]:
    """For images without a customary protocol: an encoder by their size and number, and epochs for about as many steps
    a task whatever there is, at a rate that falls. On a CPU many steps of a narrow ResNet learn more in the same time
    than few of a wide one: measured on folders of drawn signs and of CIFAR's photographs (results/own_folders). On a
    GPU, where a step of a wide one takes two milliseconds, there are many: chosen on CIFAR-100 (results/lessons.csv).
    """
    side, images, classes = min(dataset.shape[1:]), len(dataset.train), len(dataset.classes)
    tasks = dataset.protocol.tasks_for(classes)
    a_task = images / (tasks if isinstance(tasks, int) else len(tasks))
    model, steps, most = "resnet18:width=8", 250, 100
    if dataset.vectors:
        model, steps, most = "mlp:width=256,depth=1,features=128", 150, 50
    elif side <= 16 or images < 50 or (device == "cpu" and images > 2000):
        model, steps, most = "convnet", 150, 50
    elif device != "cpu":
        model, steps, most = "resnet18", 3000, 50
    return {
        "model": model,
        "epochs": min(most, max(5, math.ceil(32 * steps / a_task))),
        "batch": 32,
        "lr": 0.03,
        "schedule": "cosine",
        "head": "cosine:scale=10",
        "memory": min(20 * classes, max(classes, images // 2)),
    }


def choices_told(runs: Iterable[tuple[Run, Run, Dataset]]) -> list[str]:
    """In a line for each data set what was chosen for these runs, of which there is what was given and what became of
    it, and why; nothing where all was given."""
    found: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for given, run, dataset in runs:
        own = not dataset.protocol.recipe
        why = "the size and number of its images" if own else f"its '{dataset.protocol.name}' recipe"
        values = found.setdefault((dataset.name, why), {})
        for name in _chosen(given, run):
            values.setdefault(name, {})[_told(getattr(run, name))] = None
    lines = {
        (data, why): ", ".join(f"{name} {' or '.join(told)}" for name, told in values.items())
        for (data, why), values in found.items()
    }
    return [f"{data}: {line} (by {why}; any option given wins)" for (data, why), line in lines.items() if line]


def _told(value: Any) -> str:
    """Tasks of the same size by their number."""
    return str(len(value)) if isinstance(value, tuple) and len(set(value)) == 1 else word(value)


def _chosen(given: Run, run: Run) -> list[str]:
    """The settings that were left open and have a value now."""
    told = [name for name in ("tasks", *TRAINING) if name != "memory" or run.uses_memory]
    chosen = [name for name in told if _open(given, name) and getattr(run, name) is not None]
    return chosen + [name for name in ("learner", "perturb") if getattr(run, name) != getattr(given, name)]


def unused_told(given: Container[str], runs: Iterable[Run]) -> str:
    """In one line which learners have no use for the memory, if it was given; empty where all have."""
    asked = [run for run in runs if "memory" in given and run.memory.size]
    idle = dict.fromkeys(run.learner.name for run in asked if not run.uses_memory)
    return f"the memory given is not used by {', '.join(idle)}: no samples are kept" if idle else ""
