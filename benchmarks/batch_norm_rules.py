"""Claim: of the rules for BatchNorm's test statistics, one is best for all methods.

    python benchmarks/batch_norm_rules.py --out rules --data cifar100 --learner er derpp er_ace \\
        --perturb none gaussian wap:lambda=1.5,step_size=100 --seeds 3 --device cuda --jobs 9

Runs every method with every seed once, like moca compare and with its options, and evaluates each run under every rule
(--record rules). Since a rule is chosen here, it evaluates on a tenth of the training images, held out, unless
--validation says otherwise. Prints the final accuracy of each method under each rule, the mean over the methods, and
the regret: the mean loss against each method's best rule. Writes them to rules.csv and rules.md in --out. The same
command resumes where it stopped.
"""

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from cyclopts import App, Parameter

from moca import MocaError, api
from moca.cli.hints import as_options
from moca.cli.options import given, with_run_options
from moca.measures.analysis import analyses_of
from moca.measures.record.rules import final_accuracies
from moca.report.comparison import Comparison
from moca.report.spread import Spread


def main(
    *,
    out: Annotated[Path, Parameter(help="folder to write to")],
    seeds: Annotated[int, Parameter(help="number of seeds, counting from 0")] = 3,
    jobs: Annotated[int | None, Parameter(help="runs at a time on a GPU")] = None,
    **options: Any,
) -> None:
    """Train, evaluate under every rule, and print which one has the least regret."""
    settings = {"validation": 0.1, "record": "rules"} | given(options)
    comparison = api.compare(out=out, seeds=seeds, jobs=jobs, progress=True, **settings)
    methods = _by_method(comparison)
    by_regret = regrets({method: {rule: s.mean for rule, s in by.items()} for method, by in methods.items()})
    _write_csv(out / "rules.csv", comparison, methods, by_regret)
    shown = _table(methods, by_regret)
    (out / "rules.md").write_text(shown)
    print(shown, end="")
    for failure in comparison.mistakes:
        print(f"not finished: {failure}", file=sys.stderr)


def regrets(accuracies: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The regret of each rule that all methods have: the mean loss of a method against its own best rule."""
    best = {method: max(by_rule.values()) for method, by_rule in accuracies.items()}
    rules = [rule for rule in next(iter(accuracies.values())) if all(rule in by for by in accuracies.values())]
    return {rule: fmean(best[method] - by_rule[rule] for method, by_rule in accuracies.items()) for rule in rules}


def _by_method(comparison: Comparison) -> dict[str, dict[str, Spread]]:
    """Final accuracy over seeds under each rule, for methods with at least one finished run."""
    found = {}
    for row in comparison.rows:
        runs = [final_accuracies(analyses_of(result)) for result in row.finished]
        if not all(runs):
            raise MocaError(f"{row.label} was not tested under any rule: its encoder has no BatchNorm")
        if runs:
            found[row.label] = {rule: Spread.of([run[rule] / 100 for run in runs]) for rule in runs[0]}
    if not found:
        raise MocaError("no run has finished, so there is nothing to choose a rule by")
    return found


def _write_csv(
    path: Path, comparison: Comparison, methods: dict[str, dict[str, Spread]], by_regret: dict[str, float]
) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["rule", "method", "seeds", "final_accuracy", "std", "regret"])
        for rule in by_regret:
            for method, by in methods.items():
                loss = max(spread.mean for spread in by.values()) - by[rule].mean
                writer.writerow([rule, method, len(comparison[method].finished), by[rule].mean, by[rule].std, loss])
            writer.writerow([rule, "all", "", fmean(by[rule].mean for by in methods.values()), "", by_regret[rule]])


def _table(methods: dict[str, dict[str, Spread]], by_regret: dict[str, float]) -> str:
    """A Markdown table, the least regret first; a method's best rule is in bold."""
    lines = [["rule", *methods, "mean", "regret"], ["---"] * (len(methods) + 3)]
    for rule in sorted(by_regret, key=by_regret.__getitem__):
        cells = []
        for by in methods.values():
            best = by[rule].mean == max(spread.mean for spread in by.values())
            cells.append(f"**{by[rule].percent()}**" if best else by[rule].percent())
        mean = fmean(by[rule].mean for by in methods.values())
        lines.append([rule, *cells, f"{100 * mean:.2f}", f"{100 * by_regret[rule]:.2f}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    app = App(help=__doc__)
    app.default(with_run_options(main, several=True, without=("seed", "record")))
    try:
        app()
    except MocaError as error:
        sys.exit(f"batch_norm_rules: {as_options(str(error))}")
