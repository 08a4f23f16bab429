"""Results made by hand."""

import numpy as np

from moca.engine.folder import RunFolder
from moca.engine.result import Result
from moca.parts import LEARNERS, PERTURBATIONS
from moca.report.comparison import Comparison
from moca.settings import Run, validate

ENVIRONMENT = {"moca": "0.1.0", "torch": "2.8.0", "python": "3.11.7", "device": "x86_64", "threads": 1}


def matrix(final, tasks=3):
    """An accuracy matrix whose last row has the mean `final`; earlier tasks were right every time when learned."""
    rows = np.zeros((tasks + 1, tasks))
    for i in range(1, tasks + 1):
        rows[i, :i] = 1.0
    rows[-1] = final
    return rows.tolist()


def result(folder, accuracy, seed=0, status="finished", message="", notes=(), **settings):
    """A result from its accuracy matrix, or from its final accuracy."""
    values = matrix(accuracy) if isinstance(accuracy, float) else accuracy
    run = validate(Run, {"tasks": len(values[0]), "seed": seed} | settings)
    return Result(
        run, folder / f"run-{seed}", status, message, values, values, 10, 1.5, 2345.6, ENVIRONMENT, list(notes)
    )


def comparison(folder, methods):
    """A comparison from each method's final accuracies, seeds from 0 on, or from its results."""
    entries = []
    for label, runs in methods.items():
        for seed, run in enumerate(runs):
            entries.append((label, result(folder, run, seed, **method(label)) if isinstance(run, float) else run))
    return Comparison(entries, folder)


def method(label):
    """The settings that a label such as er+wap stands for; none for other labels."""
    learner, _, perturb = label.partition("+")
    if learner not in LEARNERS.built_in or perturb not in ("", *PERTURBATIONS.built_in):
        return {}
    return {"learner": learner, "perturb": perturb or "none"}


def written(result, folder):
    """The same result in the folder of a run."""
    result.folder = folder
    RunFolder.create(folder, result.settings).release()
    result.save()
    return folder
