"""A progress bar with rate and time left."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


class ProgressBar:
    """Counts steps towards a total, saying where the work is, in half a line at the most. It appears with the first
    step, not with an error."""

    def __init__(self, total: int, title: str = "", shown: bool = True) -> None:
        def kept(width: int | None = None) -> Column:
            return Column(no_wrap=True, overflow="ellipsis", max_width=width)

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", table_column=kept(console.width // 2)),
            BarColumn(bar_width=12),
            MofNCompleteColumn(table_column=kept()),
            _Rate(table_column=kept()),
            TimeRemainingColumn(table_column=kept()),
        )
        self.progress = Progress(*columns, console=console, disable=not shown)
        self.title, self.bar = title, self.progress.add_task(title, total=total)

    def __call__(self, steps: int, where: str) -> None:
        """`steps` more are done, or have to be done again if below zero; the work is now at `where`."""
        self.progress.start()
        self.progress.update(self.bar, advance=steps, description=f"{self.title} {where}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.progress.live.is_started:
            self.progress.stop()
