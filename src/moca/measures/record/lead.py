"""The lead of new classes after every task: the run tested with increasing logit adjustment."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from moca.engine.evaluate import in_evaluation
from moca.engine.tested import mean_over
from moca.engine.watch import TaskRecord
from moca.measures.analysis import Analyses, Analysis, Axis, Plot
from moca.measures.batch_norm import OWN, Estimates, Rule, holding, layers_moved
from moca.measures.lead import ACCURACY, ADJUST, MARKED, MULTIPLES, adjusted, summary
from moca.measures.record.base import Recording
from moca.streams import Stream

NAME = "lead_over_tasks"
_REPLAYED = Rule("b")
IN_WORDS = {OWN: "as tested", _REPLAYED.mix: "replayed BatchNorm statistics"}
"""Names for readers of what a run was tested with."""
_ABOUT = (
    "Accuracy as the logits of the current task's classes, which training favours, are lowered: as the run was tested"
    "{own}, and with BatchNorm's statistics of replayed batches alone{replayed}. "
)
_BATCHES = 50
"""The number of batches from which the statistics of replayed batches are estimated."""


class LeadTested(Recording):
    """Accuracy on the tasks learned so far with each multiple of the lead subtracted: as the run is tested, and with
    BatchNorm statistics of replayed batches only, if the trained model is what is tested. Not for learners that predict
    by distances."""

    leads_to, about = NAME, "logit adjustment after every task"

    def task(self, record: TaskRecord) -> None:
        """Test as the run does, and again with the statistics of replayed batches, if these differ."""
        run, learning = self.run, self.run.trainer.learning
        if not learning.learner.has_logits:
            return
        tasks, estimates = run.tested.first(record.learned), Estimates(run.trainer, _BATCHES)
        accuracy = {OWN: self._adjusted(tasks)}
        moved = learning.learner.tests_model and layers_moved(learning.model)
        if moved and estimates.meant(_REPLAYED) == _REPLAYED:
            with holding(learning.model, estimates.under(_REPLAYED)):
                accuracy[_REPLAYED.mix] = self._adjusted(tasks)
        self.tasks.append({"learned": record.learned, "accuracy": accuracy})

    def _adjusted(self, tasks: Stream) -> list[float]:
        """The accuracy over these tasks for each multiple."""
        learning, test = self.run.trainer.learning, tasks.test
        predict, lead = learning.learner.predict, learning.learner.lead

        def of_task(index: Tensor) -> list[float]:
            scores = in_evaluation(learning.model, predict, test.images, index, tasks.protocol)
            return adjusted(scores, test.labels[index].to(scores.device), lead, MULTIPLES).all

        by_task = [of_task(task.test) for task in tasks]
        return [mean_over(tasks, accuracies) for accuracies in zip(*by_task, strict=True)]

    def analysis(self) -> Analysis | None:
        """Accuracy over the multiples at the end, and over the tasks with none and all of the lead subtracted."""
        if not self.tasks:
            return None
        last, applied = self.tasks[-1]["accuracy"], self.run.trainer.learning.learner.adjusts_by

        def over_tasks(rule: str, multiple: int) -> list[float]:
            found = [task["accuracy"].get(rule, task["accuracy"][OWN]) for task in self.tasks]
            return [100 * accuracies[MULTIPLES.index(multiple)] for accuracies in found]

        x, learned = Axis(ADJUST, MULTIPLES), [task["learned"] for task in self.tasks]
        at_the_end = {rule: [100 * accuracy for accuracy in accuracies] for rule, accuracies in last.items()}
        taken = {f"{rule}, adjust={multiple}": over_tasks(rule, multiple) for rule in last for multiple in (0, 1)}
        y = Axis(ACCURACY)
        return Analysis(
            "Logit adjustment after every task",
            _ABOUT.format(own=f" ({OWN})", replayed=f" ({_REPLAYED.mix})") + MARKED,
            {f"{what}, {rule}": number for rule in last for what, number in summary(last[rule]).items()},
            {
                "lead_at_the_end": Plot("lines", x, y, at_the_end, mark=applied or 1),
                NAME: Plot("lines", Axis("Tasks learned", learned), y, taken),
            },
            "recorded",
        )


def in_words(analysis: Analysis) -> Analysis:
    """The analysis with names for readers in place of those of BatchNorm rules, by which it is stored."""

    def name(stored: str) -> str:
        return ", ".join(IN_WORDS.get(part, part) for part in stored.split(", "))

    plots = {
        key: replace(plot, series={name(series): values for series, values in plot.series.items()})
        for key, plot in analysis.plots.items()
    }
    numbers = {name(number): value for number, value in analysis.numbers.items()}
    return replace(analysis, about=_ABOUT.format(own="", replayed="") + MARKED, numbers=numbers, plots=plots)


def at_the_end(analyses: Analyses, rule: str) -> list[float]:
    """The numbers of `summary` at the end: accuracies in % as trained, with adjust=1 and at best, and the best value.

    With the BatchNorm statistics of this rule, or as the run was tested if these are the same; empty if nothing was
    recorded.
    """
    numbers = analyses[NAME].numbers if NAME in analyses else {}
    names = dict.fromkeys(name.rpartition(", ")[0] for name in numbers)
    found = (numbers.get(f"{name}, {rule}", numbers[f"{name}, {OWN}"]) for name in names)
    return [number for number in found if number is not None]
