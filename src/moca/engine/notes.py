"""What the user should know about the numbers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moca.engine.first_task import SHARED

if TYPE_CHECKING:
    from moca.engine.run import Running


def notes(run: Running, finished: bool) -> list[str]:
    """A sentence each."""
    memory, tasks, stream = run.trainer.learning.memory, run.trainer.schedule.tasks, run.stream
    samples, learnt = sum(len(task.train) for task in tasks), len({c for task in tasks for c in task.classes})
    told = list(stream.dataset.notes)
    if run.shared_with:
        told.append(f"{SHARED} '{run.shared_with}', which begins alike")
    if memory is not None and memory.size >= samples:
        told.append(f"the memory is as large as all training data ({samples}): nothing need be forgotten")
    if learnt < stream.classes:
        told.append(f"the tasks have {learnt} of the {stream.classes} classes; the others were left out")
    if finished and run.tested.at_chance(learnt):
        alone = len(stream[-1].tested) == 1
        which = "the class of the last task is told from all others" if alone else (
            "the classes of the last task are told from each other")  # fmt: skip
        larger = ", more classes a task" * alone
        told.append(f"{which} no better than by guessing; another lr than {run.settings.lr:g}{larger} or more epochs "
                    "may help")  # fmt: skip
    return told
