"""Defaults that work: what a run leaves open is filled in from its protocol's recipe and from its methods' own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moca.data import Dataset
from moca.engine.device import pick_device
from moca.settings import Run, validate

_TOLD = ("model", "epochs", "batch", "lr", "optimiser", "schedule", "head", "memory")
"""Settings that decide how well a run learns: which of them were chosen is said."""


def complete(run: Run, dataset: Dataset) -> Run:
    """The run with nothing left open. What was given stays; a run that is complete comes back as it is."""
    protocol = dataset.protocol
    places = (protocol.name, f"{dataset.name}/{protocol.name}")
    recipe: dict[str, Any] = {
        "tasks": protocol.tasks_for(len(dataset.classes)),
        "class_order": protocol.class_order,
        "model": "convnet",
        **(protocol.recipe or own_recipe(dataset, pick_device(run.device).type)),
        **_found(run.learner.part and run.learner.part.recipes, places),
    }
    open_ones = {name: value for name, value in recipe.items() if name not in run.model_fields_set}
    moved = run.perturb.with_defaults(_found(run.perturb.part and run.perturb.part.recipes, places))
    return validate(Run, dict(run) | open_ones | {"perturb": moved})


def _found(recipes: Mapping[str, Mapping[str, Any]] | None, places: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for place in places for key, value in (recipes or {}).get(place, {}).items()}


def own_recipe(dataset: Dataset, device: str) -> dict[str, Any]:
    """For images without a customary protocol: an encoder by their size and number, and epochs for a like number of
    steps whatever there is."""
    side, images = min(dataset.shape[1:]), len(dataset.train)
    small = side < 24 or (device == "cpu" and images < 20_000)
    tasks = protocol_tasks(dataset)
    return {
        "model": "convnet" if small else "resnet18",
        "epochs": max(5, min(50, 40_000 * tasks // images)),
        "lr": 0.03 if small else 0.1,
        "head": "cosine:scale=10" if small else "cosine",
        "memory": max(20, min(2000, images // 10)),
    }


def protocol_tasks(dataset: Dataset) -> int:
    """Into how many tasks the classes are dealt unless told otherwise."""
    tasks = dataset.protocol.tasks_for(len(dataset.classes))
    return tasks if isinstance(tasks, int) else len(tasks)


def choices_told(given: Run, run: Run, dataset: Dataset) -> str:
    """In one line what was chosen for a run, and why; empty where nothing was."""
    chosen = [name for name in _TOLD if name not in given.model_fields_set and getattr(run, name) is not None]
    if not chosen:
        return ""
    values = ", ".join(f"{name} {getattr(run, name)}" for name in chosen)
    own = not dataset.protocol.recipe
    why = "the size and number of its images" if own else f"its '{dataset.protocol.name}' recipe"
    return f"{dataset.name}: {values} (by {why}; any option given wins)"
