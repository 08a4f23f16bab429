"""Results made by hand."""

import re

import numpy as np
import torch

from moca.engine.folder import RunFolder
from moca.engine.result import Result
from moca.measures.analysis import Analysis, Axis, Plot, write
from moca.measures.pictures import sheet
from moca.parts import LEARNERS, PERTURBATIONS
from moca.report.analysis_plots import of_panels
from moca.report.comparison import Comparison
from moca.report.grouping import in_place
from moca.report.side_by_side import Line, Panel
from moca.settings import Label, Named, Run, validate

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
    run = run.model_copy(update={name: in_place(getattr(run, name), run) for name in ("learner", "perturb")})
    return Result(
        run, folder / f"run-{seed}", status, message, values, values, 10, 1.5, 2345.6, ENVIRONMENT, list(notes)
    )


def comparison(folder, methods, **given):
    """A comparison from each method's final accuracies, seeds from 0 on, or from its results."""
    entries = []
    for label, runs in methods.items():
        for seed, run in enumerate(runs):
            made = result(folder, run, seed, **method(label)) if isinstance(run, float) else run
            entries.append((label_of(label), made))
    return Comparison(entries, folder, **given)


def label_of(text):
    """The label that is written so; any other text stands in it for the learner's name."""
    found = re.fullmatch(r"(\w+)(?::([^+ ]*))?(?:\+(\w+)(?::([^ ]*))?)?((?: \w+=\S*)*)", text)
    learner, options, perturb, more, others = found.groups("") if found else (text, "", "", "", "")
    both = ((learner, options), (perturb or "none", more))
    parts = [Named(name, tuple(filter(None, given.split(",")))) for name, given in both]
    return Label(*parts, tuple(others.split()))


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


def pictures():
    """A figure of two rows of eight pictures, with the names that implicit augmentation gives them."""
    x, y = Axis("", ["real", "rebuilt", *"123456"]), Axis("", ["gaussian: 45°, missed by 41°", "wap: 9°, missed by 8°"])
    plot = Plot("pictures", x, y, {"bird": sheet(torch.zeros(2, 8, 3, 4, 4))})
    return of_panels([Panel("er: bird", [Line("er", 0, "bird", plot, plot.series["bird"])])], "Pictures")


def analysed(result, folder, scale=1.0, names=("a", "b", "c", "d"), only=None):
    """The result in a folder that holds an analysis with a plot of each kind; its values are times `scale`."""
    result.folder = folder
    folder.mkdir(parents=True, exist_ok=True)
    points = {"x": [1.0, 0.0, -1.0, 0.0], "y": [0.0, 1.0, 0.0, -1.0], "class": [0, 1, 2, 3], "names": list(names),
              "old": [True, True, False, False], "vectors": [[1, 0], [0, 1], [-1, 0], [0, -1]]}  # fmt: skip
    two, task, some = Axis("Task", [1, 2]), Axis("Task", [1, 2, 3]), Axis("", list(names))
    plots = {
        "course": Plot("lines", task, Axis("Angle"), {n: [None, scale, 2 * scale] for n in ("old", "new")}, mark=2.0),
        "fall": Plot("lines", task, Axis("Value", log=True), {"rows": [scale, 0.1 * scale, 0.01 * scale]}),
        "heights": Plot("bars", some, Axis("Share"), {"test": [scale, 0.0, None, scale]}),
        "shares": Plot("matrix", two, two, {"test": [[0.5 * scale, 0.001], [None, 0.25 * scale]]}, "share"),
        "plane": Plot("points", Axis("x"), Axis("y"), {"test": points}),
    }
    found = Analysis("What <b>it</b> is", "A sentence.", {"mean angle": 10 * scale, "none": None},
                     {name: plot for name, plot in plots.items() if only in (None, name)})  # fmt: skip
    write(RunFolder(folder), {"made": found})
    return result
