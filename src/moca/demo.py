"""The demo: plain replay against MOCA on split digits, with a report."""

import os
from pathlib import Path

from moca import api
from moca.engine.material import Material
from moca.engine.trainer import Trainer
from moca.recipes import load_recipe
from moca.report.comparison import Comparison
from moca.report.exhibit import planes
from moca.report.features import Panel, feature_panel
from moca.report.page import write_report
from moca.settings import Run, validate


def demo(out: Path, seeds: int, progress: bool = True) -> tuple[Comparison, Path]:
    """Run the comparison of the digits recipe and write its report."""
    recipe = load_recipe("digits")
    comparison = api.compare(**recipe["settings"], seeds=seeds, out=out, jobs=os.cpu_count() or 1, progress=progress)
    panels = [_plane(recipe["plane"], name) for name in recipe["plane"]["perturb"]]
    return comparison, write_report(comparison, [planes(panels)], recipe["about"]["text"])


def _plane(settings: dict[str, object], perturb: str) -> Panel:
    """The two-dimensional features of a small run, to be drawn."""
    run, stream = Material()(validate(Run, settings | {"perturb": perturb}))
    trainer = Trainer(run, stream)
    while True:
        for _ in trainer.steps():
            pass
        trainer.end_task()
        if not trainer.next_task():
            break
    return feature_panel(trainer, "plain replay" if perturb == "none" else f"with {run.perturb}")
