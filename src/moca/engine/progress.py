"""A progress bar with rate and time left."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f} steps/s" if task.speed else "")


class ProgressBar:
    """Counts steps towards a total, saying where the work is. It appears with the first step, not with an error."""

    def __init__(self, total: int, title: str = "", shown: bool = True) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=Console(stderr=True), disable=not shown)
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
