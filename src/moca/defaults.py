"""Default settings: what a run leaves open is filled in from the recipes of its protocol and of its methods."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from typing import Any

from moca.data import Dataset
from moca.data.protocol import setting_of
from moca.engine.device import pick_device
from moca.settings import TRAINING, Absent, Choice, Run, validate, word
from moca.settings.memory import Memory
from moca.settings.optimisers import SGD, Adam


def complete(run: Run, dataset: Dataset) -> Run:
    """Fill in every setting that the run leaves open. Given settings stay; a complete run is returned unchanged."""
    learner, places, recipe = _recipe(run, dataset)
    if _trained_otherwise(run, recipe):
        recipe["lr"] = run.optimiser.usual_lr  # SGD's is far too large for Adam
    open_ones = {name: value for name, value in recipe.items() if _open(run, name)}
    moved = with_recipe(run.perturb, places)
    return validate(Run, dict(run) | open_ones | {"learner": with_recipe(learner, places), "perturb": moved})


def _recipe(run: Run, dataset: Dataset) -> tuple[Choice, list[str], dict[str, Any]]:
    """The learner of a run, the names of the recipes that apply to it, and the settings that they give."""
    protocol = dataset.protocol
    own = protocol.recipe or own_recipe(dataset, pick_device(run.device).type)
    memory = run.memory
    if "memory" in own and "memory" not in run.model_fields_set:
        memory = validate(Run, {"memory": own["memory"]}).memory
    places = recipe_places(dataset.name, protocol.name, memory)
    learner = run.learner
    if "learner" in protocol.recipe and "learner" not in run.model_fields_set:
        learner = validate(Run, {"learner": protocol.recipe["learner"]}).learner
    recipe: dict[str, Any] = {
        "tasks": protocol.tasks_for(len(dataset.classes)),
        "class_order": protocol.class_order,
        "image_size": protocol.image_size,
        "model": "convnet",
        **own,
        **{name: value for name, value in _found(learner, places).items() if name not in learner.options},
    }
    return learner, places, recipe


def _trained_otherwise(run: Run, recipe: dict[str, Any]) -> bool:
    """Whether a run was given an optimiser of another kind than its recipe's, which has no learning rate for it."""
    meant = validate(Run, {"optimiser": recipe.get("optimiser", SGD())}).optimiser
    return not _open(run, "optimiser") and isinstance(run.optimiser, Adam) != isinstance(meant, Adam)


def recipe_places(data: str, protocol: str, memory: Memory) -> list[str]:
    """The names of the recipes of a learner or a perturbation that apply to a run; later ones take precedence."""
    kind = setting_of(protocol)
    by_set = f"{data}/{kind}"
    in_total = [f"{by_set}/{memory.size}"] * (memory.per == "total")
    return [kind, protocol, by_set, f"{data}/{protocol}", *in_total]


def with_recipe(choice: Choice, places: Iterable[str]) -> Choice:
    """A learner or a perturbation whose options that were not given are those of its recipes."""
    return choice.with_known(_found(choice, places))


def _open(run: Run, name: str) -> bool:
    """Whether a setting is left to the recipe: not given, or None, as it may be in Python and in older settings.json
    files."""
    return name not in run.model_fields_set or getattr(run, name) is None


def _found(choice: Choice, places: Iterable[str]) -> dict[str, Any]:
    recipes = {} if isinstance(choice, Absent) else choice.make().recipes
    return {key: value for place in places for key, value in recipes.get(place, {}).items()}


def own_recipe(dataset: Dataset, device: str) -> dict[str, Any]:
    """A recipe for data without an established protocol.

    The encoder follows from the size and number of the images, and the number of epochs gives about the same number of
    steps per task for any amount of data, with a decaying learning rate. On a CPU, many steps of a narrow ResNet learn
    more in the same time than a few of a wide one, as measured on folders of drawn signs and of CIFAR photographs
    (results/own_folders). On a GPU, where a step of a wide ResNet takes two milliseconds, there are many steps; their
    number was chosen on CIFAR-100 (results/lessons.csv).
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


def choices_in_words(runs: Iterable[tuple[Run, Run, Dataset]]) -> list[str]:
    """One line per data set with the settings that were chosen automatically, and why; none if all were given.

    Each run is a triple: the settings as given, the completed settings, and the data set.
    """
    found: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for given, run, dataset in runs:
        own = not dataset.protocol.recipe
        why = "the size and number of its images" if own else f"its '{dataset.protocol.name}' recipe"
        values = found.setdefault((dataset.name, why), {})
        chosen = _chosen(given, run)
        if "lr" in chosen and _trained_otherwise(given, _recipe(given, dataset)[2]):
            chosen["lr"] += f" (usual for {run.optimiser.name})"
        for name, words in chosen.items():
            values.setdefault(name, {})[words] = None
    lines = {
        (data, why): ", ".join(f"{name} {' or '.join(words)}" for name, words in values.items())
        for (data, why), values in found.items()
    }
    return [
        f"{data}: {line} (from {why}; options you give take precedence)" for (data, why), line in lines.items() if line
    ]


def _in_words(value: Any) -> str:
    """A setting's value as text; tasks of equal size are given by their number."""
    return str(len(value)) if isinstance(value, tuple) and len(set(value)) == 1 else word(value)


def _chosen(given: Run, run: Run) -> dict[str, str]:
    """The settings that were left open and now have a value, in words; of a learner or a perturbation these options."""
    names = [name for name in ("tasks", *TRAINING) if name != "memory" or run.uses_memory]
    chosen = {
        name: _in_words(value) for name in names if _open(given, name) and (value := getattr(run, name)) is not None
    }
    parts = {"learner": (given.learner, run.learner), "perturb": (given.perturb, run.perturb)}
    return chosen | {name: after.beyond(before) for name, (before, after) in parts.items() if before != after}


def unused_in_words(given: Container[str], runs: Iterable[Run]) -> str:
    """One line naming the learners that ignore the memory, if one was given; empty if all use it."""
    with_memory = [run for run in runs if "memory" in given and run.memory.size]
    ignoring = dict.fromkeys(run.learner.name for run in with_memory if not run.uses_memory)
    return f"the memory given is not used by {', '.join(ignoring)}: no samples are kept" if ignoring else ""
