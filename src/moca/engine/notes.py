"""Caveats about the numbers of a run, for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from moca.engine.first_task import SHARED

if TYPE_CHECKING:
    from moca.engine.run import Running
    from moca.settings import Run
    from moca.streams import Stream

_FEW, _UNEVEN = 20, 3
"""With fewer test images in a task, one is worth more than five points; a class this many times as large as another
decides an accuracy."""
_SMALL_STEP = 0.02
"""On digits, an adversarial step of 0.01 turns features by 5 degrees with the small network and 15 with ResNet-18, one
of 0.03 by 23 and 33 degrees, and the default one, 0.3, by about 65."""


def notes(run: Running, finished: bool) -> list[str]:
    """The caveats, one sentence each."""
    memory, tasks, stream = run.trainer.learning.memory, run.trainer.schedule.tasks, run.stream
    samples, learnt = sum(len(task.train) for task in tasks), len({c for task in tasks for c in task.classes})
    lines = list(stream.dataset.notes)
    if run.shared_with:
        lines.append(f"{SHARED} '{run.shared_with}', which is identical up to there")
    if memory is not None and memory.size >= samples:
        lines.append(f"the memory is as large as all training data ({samples}): nothing need be forgotten")
    if len(stream) == 1:
        lines.append("all classes came in one task, so nothing could be forgotten; set tasks to split them")
    lines += _about_steps(run.settings) + _about_test_images(stream)
    if learnt < stream.classes:
        lines.append(f"the tasks have {learnt} of the {stream.classes} classes; the others were left out")
    if finished and run.tested.at_chance(learnt):
        alone = len(stream[-1].tested) == 1
        which = "the class of the last task is recognised" if alone else "the classes of the last task are told apart"
        larger = ", more classes per task" * alone
        lines.append(f"{which} no better than by guessing; another lr than {run.settings.lr:g}{larger} or more epochs "
                     "may help")  # fmt: skip
    return lines


def _about_steps(settings: Run) -> list[str]:
    """Whether a perturbation that steps by multiples of the learning rate, as WAP does, moves features too little."""
    perturb = settings.perturb
    step = getattr(perturb, "step_size", 0) * (settings.lr or 0)
    if not getattr(perturb, "relative", False) or step >= _SMALL_STEP:
        return []
    return [
        f"a step of {perturb.name} is step_size times lr, {step:g} at first: features move little, and replay has less "
        f"weight; try {perturb.name}:relative=false,step_size=0.3"
    ]


def _about_test_images(stream: Stream) -> list[str]:
    """Whether there are too few test images for fine differences, and whether some classes outweigh the others."""
    fewest = min((len(task.test) for task in stream if len(task.test)), default=_FEW)
    labels = stream.test.labels[torch.cat([task.test for task in stream])]
    of_class = labels.unique(return_counts=True)[1].tolist() or [1]
    lines = []
    if fewest < _FEW:
        lines.append(f"a task is tested on only {fewest} images, each of which is worth {100 / fewest:.0f} points")
    if max(of_class) >= _UNEVEN * min(of_class):
        lines.append(
            f"classes have from {min(of_class)} to {max(of_class)} test images, and an accuracy counts images: it says "
            "little about the small classes"
        )
    return lines
