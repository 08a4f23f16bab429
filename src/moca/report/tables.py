"""The tables of a report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from moca.engine.result import Result
from moca.report.conditions import run_command
from moca.report.differences import Learners, against_own_learner, between_learners, by_memory
from moca.report.methods import Row, Setting
from moca.report.significance import FEW, LEVEL, Difference
from moca.report.spread import Spread
from moca.report.table import UNKNOWN, Cell, Table
from moca.settings import Run, word

_TINY = 1e-4
"""Numbers below it are printed as a power of ten."""


@dataclass(frozen=True)
class Column:
    """A column of the summary: which number it shows, its title, a line that explains it, and its unit."""

    number: str
    title: str
    meaning: str
    unit: str = "percent"


_UP, _DOWN = "\N{NO-BREAK SPACE}↑", "\N{NO-BREAK SPACE}↓"
COLUMNS = (
    Column("final_accuracy", f"Final accuracy{_UP}",
           "mean accuracy over all tasks after the last one; all classes compete"),
    Column("average_incremental_accuracy", f"Average incremental{_UP}",
           "mean, over the stages, of the mean accuracy on the tasks learned so far"),
    Column("forgetting", f"Forgetting{_DOWN}",
           "how far the accuracy on each earlier task has fallen from its best since the task was learned, on average"),
    Column("bwt", f"BWT{_UP}",
           "backward transfer: how much accuracy on each earlier task has changed since it was learned, on average"),
    Column("fwt", f"FWT{_UP}",
           "forward transfer: accuracy on each task just before it is learned, above that of the untrained model; "
           "classes that have not been seen yet are hardly ever predicted, and then it says nothing about a method"),
    Column("task_il_accuracy", f"Task-IL accuracy{_UP}",
           "final accuracy when the task of each sample is known, so that only the classes of its task compete"),
    Column("anytime_accuracy", f"Anytime accuracy{_UP}",
           "mean, over the stream, of the accuracy on the tasks begun so far"),
    Column("seconds", "Seconds", "training time of a run, evaluation excluded", "seconds"),
    Column("images_per_second", "Images/s", "new and replayed images trained on per second", "rate"),
)  # fmt: skip


def columns(setting: Setting) -> list[Column]:
    """The columns of a setting's summary; the anytime accuracy only if runs have it (`evaluate_every`)."""
    anytime = any(not math.isnan(v) for row in setting.rows for v in row.values("anytime_accuracy"))
    return [column for column in COLUMNS if anytime or column.number != "anytime_accuracy"]


def summary(setting: Setting, colours: Sequence[int | None], with_p: bool = False) -> Table:
    """Every method with mean and standard deviation over its seeds, and its gain over its own learner; for a paper
    with the gain's p-value beside it."""
    gains, shown = {row.label: gain for row, _, gain in against_own_learner(setting)}, columns(setting)
    added = (["Gain over its learner"] + ["p (Holm)"] * with_p) * bool(gains)
    numbers = [_best_marked(setting.rows, column) for column in shown]
    rows = []
    for row, colour, first, *others in zip(setting.rows, colours, *numbers, strict=True):
        gain = gains.get(row.label)
        about_gain = [_signed(gain), _p_cell(gain, gain.adjusted)] if gain else [Cell(), Cell()]
        rows.append((Cell(row.label, colour=colour), Cell(_seeds(row)), first, *about_gain[: len(added)], *others))
    head = ["Method", "Seeds", shown[0].title, *added, *(column.title for column in shown[1:])]
    means = (
        f"Means over seeds in percent, on {setting.judged}; ± is the sample standard deviation over seeds, which a "
        "single seed does not have."
        if any(len(row.finished) > 1 for row in setting.rows)
        else f"In percent, on {setting.judged}, of a single seed."
    )
    caption = (
        f"{setting.title}. {means} "
        + (
            "The gain, in percentage points, is that over the same learner without perturbation"
            f"{_both_chosen(setting)}. {_TEST} "
            if gains
            else ""
        )
        + f"{UNKNOWN} is a number that is unknown or has no meaning here. Arrows show which direction is better."
    )
    bold = _what_is_bold(setting.finished) if any(cell.best for row in rows for cell in row) else ""
    return Table("summary", tuple(head), rows, caption, setting.title, setting.in_print, bold)


def _best_marked(rows: Sequence[Row], column: Column) -> list[Cell]:
    """The cells of a column of the summary; the best of all methods with the same memory is marked, unless all are
    level or the column has no direction. Joint training, an upper bound, does not compete."""
    spreads = {row.label: Spread.of(row.values(column.number)) for row in rows}
    sign = {_UP: 1, _DOWN: -1}.get(column.title[-2:], 0)
    values = {label: sign * round(spread.mean, 4) for label, spread in spreads.items() if spread.n}
    best: set[str] = set()
    for group in by_memory([row for row in rows if row.label in values and not row.at_once]).values():
        known = {row.label: values[row.label] for row in group}
        if len(set(known.values())) > 1:
            best |= {label for label, value in known.items() if value == max(known.values())}
    return [replace(_cell(spread, column.unit), best=label in best) for label, spread in spreads.items()]


def _what_is_bold(rows: Sequence[Row]) -> str:
    each = " for each memory" * (len(by_memory(rows)) > 1)
    rivals = "; joint training, an upper bound, does not compete" * any(row.at_once for row in rows)
    return f"The best number of a column is bold{each}{rivals}."


_TEST = (
    f"* marks p < {LEVEL:g} in a t-test, corrected for all differences in the table (Holm); the test is paired by seed "
    f"where seeds are shared, else Welch's. With {FEW} seeds or fewer it detects only large differences."
)


def _both_chosen(setting: Setting) -> str:
    return ", each with the settings chosen for it" * setting.chosen


def perturbations(setting: Setting) -> Table | None:
    """Each perturbation compared with its own learner; None if there are no such pairs."""
    rows = [(Cell(row.label), Cell(own.label), *_test_cells(gain)) for row, own, gain in against_own_learner(setting)]
    if not rows:
        return None
    head = ("Method", "Its learner", *_TESTED)
    caption = (
        f"{setting.title}: each perturbation against its own learner{_both_chosen(setting)}, final accuracy on "
        f"{setting.judged}, in percentage points. {_TEST}"
    )
    return Table("perturbations", head, rows, caption, setting.title, setting.in_print)


def learners(setting: Setting) -> list[Table]:
    """Methods without perturbation compared with each other, in one table per memory."""
    return [_learners(setting, group) for group in between_learners(setting)]


def _learners(setting: Setting, group: Learners) -> Table:
    """Methods compared with each other or, if there are many, each with the best."""
    where, rows = ", ".join(filter(None, (setting.title, group.memory))), group.rows
    about = f"{where}: methods without perturbation, final accuracy on {setting.judged}, in percentage points"
    if not group.pairwise:
        best, among = group.ranked[0], " of those with several seeds" * (len(group.ranked) < len(rows))
        lines = [(Cell(row.label), *_test_cells(group.difference(row, best))) for row in rows if row is not best]
        head = ("Method", *_TESTED)
        caption = f"{about}; each against {best.label}, which has the highest mean{among}. {_TEST}"
        return Table("learners", head, lines, caption, where, setting.in_print)

    def cell(row: Row, column: Row) -> Cell:
        return Cell("") if row is column else _signed(group.difference(row, column))

    lines = [(Cell(row.label), *(cell(row, column) for column in rows)) for row in rows]
    counts = sorted({group.difference(row, other).n for other, row in combinations(rows, 2)})
    caption = f"{about}; n = {' or '.join(counts)} seed{'s' * (counts != ['1'])}. {_TEST}"
    columns = ("Row minus column", *(row.label for row in rows))
    return Table("learners", columns, lines, caption, where, setting.in_print)


def settings(setting: Setting) -> tuple[Table | None, dict[str, str]]:
    """A table of the settings that differ between methods, unusual values marked; and the settings shared by all."""
    values = {name: [_values(row, name) for row in setting.rows] for name in Run.model_fields if name != "seed"}
    varied = {name: each for name, each in values.items() if len(set(each)) > 1}
    same = {name: each[0] for name, each in values.items() if name not in varied}
    if not varied:
        return None, same
    usual = {name: Counter(each).most_common(1)[0][0] for name, each in varied.items()}
    rows = [
        (Cell(row.label), *(Cell(each[place], mark=each[place] != usual[name]) for name, each in varied.items()))
        for place, row in enumerate(setting.rows)
    ]
    caption = f"{setting.title}: settings in which the methods differ; values unlike most others are marked."
    return Table("settings", ("Method", *varied), rows, caption), same


def runs(setting: Setting) -> Table:
    """Every finished run, with the command that reproduces it."""
    head = ("Run", "Method", "Seed", "Final accuracy", "Forgetting", "Seconds", "Command")
    rows = [_run(row.label, result) for row in setting.rows for result in row.finished]
    return Table("runs", head, rows, f"{setting.title}: every run, in percent, on {setting.judged}.")


def _run(label: str, result: Result) -> tuple[Cell, ...]:
    numbers, command = result.numbers(), run_command(result)
    units = {"final_accuracy": "percent", "forgetting": "percent", "seconds": "seconds"}
    return (
        Cell(result.folder.name),
        Cell(label),
        Cell(str(result.settings.seed)),
        *(_cell(Spread(numbers[name], math.nan), unit) for name, unit in units.items()),
        Cell("copy", copied=command) if command else Cell("made in Python"),
    )


def _values(row: Row, name: str) -> str:
    return "; ".join(dict.fromkeys(word(getattr(r.settings, name)) for r in row.results))


def _seeds(row: Row) -> str:
    finished, total = len(row.finished), len(row.results)
    return f"{finished}" if finished == total else f"{finished} of {total}"


_TESTED = ("Difference", "p", "p (Holm)", "n", "Test", "Higher with")


def _test_cells(gain: Difference) -> tuple[Cell, ...]:
    return (
        _signed(gain),
        *(_p_cell(gain, p) for p in (gain.p, gain.adjusted)),
        Cell(gain.n),
        Cell(gain.test or "none"),
        Cell(f"{gain.wins} of {gain.seeds[0]}" if gain.paired else UNKNOWN),
    )


def _p_cell(gain: Difference, p: float) -> Cell:
    return Cell(p_value(p) if gain.test else UNKNOWN)


def p_value(p: float) -> str:
    """A p-value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _cell(spread: Spread, unit: str) -> Cell:
    if math.isnan(spread.mean):
        return Cell()
    if unit == "percent":
        return Cell(percent(spread.mean), _plus_minus(spread))
    digits = 0 if unit == "rate" or spread.mean >= 1000 else 1 if spread.mean >= 10 else 2
    return Cell(f"{spread.mean:,.{digits}f}", bare=f"{spread.mean:.{digits}f}")


def any_scale(spread: Spread) -> Cell:
    """A number of any magnitude to four digits, with its standard deviation to the same decimal place.

    Tiny numbers, which are often nothing but rounding errors, are printed as a power of ten.
    """
    if math.isnan(spread.mean):
        return Cell()
    largest = max(abs(spread.mean), 0.0 if math.isnan(spread.std) else spread.std)
    scale = abs(spread.mean) if abs(spread.mean) >= _TINY else largest
    form = ".1e" if 0 < scale < _TINY else f".{max(0, 3 - math.floor(math.log10(scale))) if scale else 3}f"
    text = f"{spread.mean:z{form}}".replace("-", "\N{MINUS SIGN}")
    return Cell(text, "" if math.isnan(spread.std) else f"± {spread.std:{form}}")


def _signed(gain: Difference) -> Cell:
    return signed(gain.spread, gain.clear)


def signed(spread: Spread, mark: bool = False) -> Cell:
    """A difference in percentage points, with its sign."""
    if math.isnan(spread.mean):
        return Cell()
    shown = percent(spread.mean)
    return Cell(f"+{shown}" if spread.mean > 0 and shown != "0.00" else shown, _plus_minus(spread), mark)


def percent(share: float) -> str:
    """A share as a percentage, with a true minus sign and no negative zero."""
    return f"{round(100 * share, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")


def _plus_minus(spread: Spread) -> str:
    return "" if math.isnan(spread.std) else f"± {100 * spread.std:.2f}"
