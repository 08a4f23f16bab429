"""A progress bar with rate and time left."""

from time import monotonic
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from moca.wording import counted

_BAR, _NUMBERS = 8, len("1234/s 0:00:00") + 4
_END = len("task 10/10, acc 99.9 %")


RESUMED, DONE_BEFORE = "resumed", "done before"
"""Where the work is, with steps that an earlier process did."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:{'.0f' if task.speed >= 10 else '.2g'}}/s" if task.speed else "")


class ProgressBar:
    """A progress bar that counts steps towards a total, and says where the work is.

    Text too long for the line is cut in the middle, since the name of a run comes first and its progress last. The bar
    appears with the first update, so an error before that does not show it.
    """

    def __init__(self, total: int, title: str = "", shown: bool = True) -> None:
        unwrapped = Column(no_wrap=True)
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", table_column=unwrapped, markup=False),
            BarColumn(bar_width=_BAR),
            MofNCompleteColumn(table_column=unwrapped),
            _Rate(table_column=unwrapped),
            TimeRemainingColumn(table_column=unwrapped),
        )
        self.width = max(_END + 8, console.width - _BAR - _NUMBERS - len(f"{total}/{total}"))
        self.progress = Progress(*columns, console=console, disable=not shown)
        self.title, self.bar, self.waiting = title, self.progress.add_task(title, total=total), ""

    def __call__(self, steps: int, where: str) -> None:
        """Advance by `steps`, which is negative if steps will be done again; the work is now at `where`."""
        self.progress.start()
        if where.endswith((RESUMED, DONE_BEFORE)):  # they took no time here, so the speed must not count them
            self.progress.reset(self.bar, completed=int(self.progress.tasks[0].completed) + steps)
            steps = 0
        self.progress.update(self.bar, advance=steps, description=self._cut(f"{self.title} {where}".strip()))

    def elsewhere(self, runs: int) -> None:
        """Show that all remaining runs are in progress in other processes."""
        waiting = f"waiting for {counted(runs, 'run')} of other processes"
        self(0, waiting)
        if waiting != self.waiting:
            self.waiting = waiting
            self.log(waiting)

    def log(self, line: str) -> None:
        """Print a line if there is no terminal to show the bar on, as in a log file."""
        console = self.progress.console
        if not self.progress.disable and not console.is_terminal:
            console.print(Text(line), soft_wrap=True)

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.width else f"{text[: self.width - _END - 1]}…{text[-_END:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.progress.live.is_started:
            self.progress.stop()


class Stages:
    """Progress bars on a terminal, one for each stage of the work; they disappear at the end.

    They appear once the work has taken `after` seconds.
    """

    def __init__(self, shown: bool = True, after: float = 0) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
        console = Console(stderr=True)
        self.bars = Progress(
            *columns,
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self.stages: dict[str, TaskID] = {}
        self.due = monotonic() + after

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Of `total` units in this stage, `done` are done."""
        if stage not in self.stages:
            self.stages[stage] = self.bars.add_task(stage)
        if monotonic() >= self.due:
            self.bars.start()
        self.bars.update(self.stages[stage], completed=done, total=total)

    def stop(self) -> None:
        """Remove the bars before other output is printed."""
        self.bars.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
