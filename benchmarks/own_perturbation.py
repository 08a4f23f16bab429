"""Question: does a perturbation of our own beat the best of the paper's with ER, DER++ and ER-ACE at the cost of noise?

    python benchmarks/own_perturbation.py --out own --small --seed 0 1 2 --learner er derpp er_ace \\
        --perturb none gaussian wap:lambda=1.5,step_size=100 benchmarks.own_perturbations.Balanced

Runs every method with every seed, like moca compare and with its options, on held-out training images (a tenth of
them, unless --validation says otherwise). For each perturbation that does not come with moca, and each learner, reports
its gain over the best of the others, with a t-test paired by seed; the learner with the least gain decides. Writes
own.csv and own.md in --out. The same command resumes where it stopped, and adds what is new.

--small is CIFAR-100 for a CPU: its first 50 classes in 5 tasks, 300 training images of each (a third held out), 16x16
pixels, a memory of 5 a class, a small convolutional network, 5 epochs; everything else as in the paper's setting.

Candidates, plan and results: docs/own-perturbation.md.
"""

import csv
import dataclasses
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from cyclopts import App, Parameter

from moca import Dataset, MocaError, api, load
from moca.cli.hints import as_options
from moca.cli.options import given, with_run_options
from moca.data import Split
from moca.report.comparison import Comparison
from moca.report.methods import Row
from moca.report.significance import Difference, difference
from moca.report.spread import Spread

CLASSES, EACH = 50, 300
SMALL = {
    "validation": 1 / 3,
    "model": "convnet:width=16,features=128",
    "memory": 5 * CLASSES,
    "epochs": 5,
    "schedule": "steps:at=3,4",
    "device": "cpu",
    "threads": 1,
}
"""About 16 seconds a run on one core."""


def main(
    *,
    out: Annotated[Path, Parameter(help="folder to write to")],
    seed: Annotated[list[int], Parameter(help="seeds", consume_multiple=True)] = [0, 1, 2],  # noqa: B006
    jobs: Annotated[int | None, Parameter(help="runs at a time on a GPU")] = None,
    small: Annotated[bool, Parameter(help="CIFAR-100 for a CPU", negative=())] = False,
    **options: Any,
) -> None:
    """Train, and compare our own perturbations with the best of the others."""
    settings = {"validation": 0.1} | (SMALL | {"data": small_cifar100()} if small else {}) | given(options)
    comparison = api.compare(out=out, seeds=seed, jobs=jobs, progress=True, **settings)
    learners = by_learner(comparison)
    write_csv(out / "own.csv", learners)
    shown = table(learners)
    (out / "own.md").write_text(shown)
    print(shown, end="")
    for failure in comparison.mistakes:
        print(f"not finished: {failure}", file=sys.stderr)


def small_cifar100() -> Dataset:
    """CIFAR-100 with fewer images of fewer classes, at half the resolution."""
    whole = load("cifar100")

    def fewer(split: Split) -> Split:
        rows = torch.cat([(split.labels == c).nonzero().squeeze(1)[:EACH] for c in range(CLASSES)])
        halved = F.avg_pool2d(split.images[rows].float(), 2).round().to(torch.uint8)
        return Split(halved, split.labels[rows])

    return dataclasses.replace(
        whole,
        train=fewer(whole.train),
        test=fewer(whole.test),
        classes=whole.classes[:CLASSES],
        protocol=dataclasses.replace(whole.protocol, tasks=(CLASSES // 5,) * 5, crop_padding=2),
        protocols={},
        orders={},
        fingerprint="",
    )


def by_learner(comparison: Comparison) -> dict[str, dict[str, Row]]:
    """The methods with a finished run, by learner and perturbation; those that come with moca are first."""
    found: dict[str, dict[str, Row]] = {}
    for row in sorted((row for row in comparison.rows if row.finished), key=is_ours):
        found.setdefault(str(row.run.learner), {})[_short(row)] = row
    return found


def is_ours(row: Row) -> bool:
    """Whether the perturbation is our own, not one that comes with moca."""
    return "." in row.run.perturb.name


def _short(row: Row) -> str:
    """The perturbation's name in a table."""
    spec = row.label.partition("+")[2] or "none"
    return spec.removeprefix("benchmarks.own_perturbations.")


def best(rows: dict[str, Row]) -> Row:
    """The method with the highest mean among those whose perturbation comes with moca."""
    return max((r for r in rows.values() if not is_ours(r)), key=lambda r: r.spread("final_accuracy").mean)


def gains(learners: dict[str, dict[str, Row]], name: str) -> dict[str, Difference]:
    """The gain of one of our own over the best of the others, for each learner that it finished with."""
    return {learner: difference(rows[name], best(rows)) for learner, rows in learners.items() if name in rows}


def step_ms(row: Row) -> float:
    """Milliseconds per step. Meaningless for runs that share a GPU: moca bench times those."""
    return Spread.of([1e3 * r.seconds / r.steps for r in row.finished]).mean


def table(learners: dict[str, dict[str, Row]]) -> str:
    """A Markdown table: accuracies and gains in points; for each learner, the best of the others is in bold."""
    head = ["perturbation", *learners, *(f"gain, {learner}" for learner in learners), "least gain", "step"]
    lines = [head, ["---"] * len(head)]
    for name in dict.fromkeys(name for rows in learners.values() for name in rows):
        cells, shares, ours = [], [], False
        for rows in learners.values():
            if name not in rows:
                cells.append("")
                continue
            percent, ours = rows[name].spread("final_accuracy").percent(), is_ours(rows[name])
            cells.append(f"**{percent}**" if rows[name] is best(rows) else percent)
            noise = next((row for row in rows.values() if row.run.perturb.name == "gaussian"), None)
            if noise is not None:
                shares.append(step_ms(rows[name]) / step_ms(noise))
        by_gain = gains(learners, name) if ours else {}
        points = [_points(by_gain[learner]) if learner in by_gain else "" for learner in learners]
        least = f"{100 * min(d.spread.mean for d in by_gain.values()):+.2f}" if by_gain else ""
        lines.append([name, *cells, *points, least, f"{Spread.of(shares).mean:.2f}" if shares else ""])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _points(found: Difference) -> str:
    chance = "" if math.isnan(found.p) else f" (p = {found.p:.3f})"
    return f"{100 * found.spread.mean:+.2f}{chance}"


def write_csv(path: Path, learners: dict[str, dict[str, Row]]) -> None:
    """Write a line per method: its accuracy, and for our own, the gain over the best of the others."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["learner", "perturbation", "seeds", "final_accuracy", "std", "step_ms", "against", "gain", "gain_std", "p"]
        )
        for learner, rows in learners.items():
            for name, row in rows.items():
                spread = row.spread("final_accuracy")
                line = [learner, name, len(row.finished), spread.mean, spread.std, step_ms(row)]
                if is_ours(row):
                    found = difference(row, best(rows))
                    line += [_short(best(rows)), found.spread.mean, found.spread.std, found.p]
                writer.writerow(line)


if __name__ == "__main__":
    app = App(help=__doc__)
    app.default(with_run_options(main, several=True, without=("seed", "record")))
    try:
        app()
    except MocaError as error:
        sys.exit(f"own_perturbation: {as_options(str(error))}")
