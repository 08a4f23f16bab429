"""The run tested under every rule for BatchNorm's test statistics, after every task."""

from __future__ import annotations

from moca.engine.evaluate import evaluate
from moca.engine.tested import mean_over
from moca.engine.watch import TaskRecord
from moca.measures.analysis import Analyses, Analysis, Axis, Plot
from moca.measures.batch_norm import OWN, RULES, Estimates, N, Rule, holding, layers_moved
from moca.measures.record.base import Recording

NAME = "batch_norm_rules"
_BATCHES = 50
"""The number of batches from which the statistics of new and of replayed batches are estimated."""


class RulesTested(Recording):
    """Accuracy on the tasks learned so far under each rule; nothing for models without BatchNorm.

    Only the statistics of the trained network change; the settings refuse a tested teacher, which has its own. Class
    means that a learner keeps (icarl) stay those of the run. Samples that a learner would mix in the encoder pass
    unmixed.
    """

    leads_to, about = NAME, "accuracy under other rules of BatchNorm"
    of_batch_norm = True

    def task(self, record: TaskRecord) -> None:
        """Test under each rule; rules that amount to the same are tested once."""
        run, learning = self.run, self.run.trainer.learning
        if not layers_moved(learning.model):
            return
        tasks = run.tested.first(record.learned)
        rules = {name: rule for name in RULES if (rule := Rule.of(name)) == N or learning.memory is not None}
        estimates, tested = Estimates(run.trainer, _BATCHES), dict[Rule, list[float]]()
        for rule in dict.fromkeys(map(estimates.meant, rules.values())):
            with holding(learning.model, estimates.under(rule)):
                tested[rule] = evaluate(learning.model, learning.predict, tasks).class_il
        class_il = {OWN: record.accuracies.class_il[: len(tasks)]}
        class_il |= {name: tested[estimates.meant(rule)] for name, rule in rules.items()}
        accuracy = {name: mean_over(tasks, accuracies) for name, accuracies in class_il.items()}
        self.tasks.append({"learned": record.learned, "class_il": class_il, "accuracy": accuracy})

    def analysis(self) -> Analysis | None:
        """Accuracy under each rule over the tasks, and at the end."""
        if not self.tasks:
            return None
        last = self.tasks[-1]["accuracy"]
        over_tasks = {rule: [100 * task["accuracy"][rule] for task in self.tasks] for rule in last}
        x = Axis("Tasks learned", [task["learned"] for task in self.tasks])
        return Analysis(
            "Accuracy under other rules of whose statistics BatchNorm holds",
            "The same weights, tested with statistics of new batches (n), of replayed ones (b), of both in turn "
            "(nb, nbb, ...), by their classes, or of the memory; own is what the run was tested with.",
            {f"final accuracy, {rule}, %": 100 * accuracy for rule, accuracy in last.items()},
            {NAME: Plot("lines", x, Axis("Accuracy of the classes so far, %"), over_tasks)},
            "recorded",
        )


def final_accuracies(analyses: Analyses) -> dict[str, float]:
    """The final accuracy in % by rule; empty if it was not recorded."""
    found = analyses.get(NAME)
    return {rule: values[-1] for rule, values in found.plots[NAME].series.items()} if found else {}
