"""A progress bar with rate and time left."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

_BAR, _NUMBERS = 8, len("1234/s 0:00:00") + 4
_END = len("task 10/10, acc 99.9 %")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


class ProgressBar:
    """Counts steps towards a total, saying where the work is: what is too long for the line is cut in the middle, since
    the name of a run comes first and how far it is last. It appears with the first step, not with an error."""

    def __init__(self, total: int, title: str = "", shown: bool = True) -> None:
        kept = Column(no_wrap=True)
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", table_column=kept, markup=False),
            BarColumn(bar_width=_BAR),
            MofNCompleteColumn(table_column=kept),
            _Rate(table_column=kept),
            TimeRemainingColumn(table_column=kept),
        )
        self.width = max(_END + 8, console.width - _BAR - _NUMBERS - len(f"{total}/{total}"))
        self.progress = Progress(*columns, console=console, disable=not shown)
        self.title, self.bar = title, self.progress.add_task(title, total=total)

    def __call__(self, steps: int, where: str) -> None:
        """`steps` more are done, or have to be done again if below zero; the work is now at `where`."""
        self.progress.start()
        self.progress.update(self.bar, advance=steps, description=self._cut(f"{self.title} {where}".strip()))

    def elsewhere(self, runs: int) -> None:
        """All runs that are left are under way in other processes."""
        self(0, f"waiting for {runs} run{'s' * (runs != 1)} of other processes")

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.width else f"{text[: self.width - _END - 1]}…{text[-_END:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.progress.live.is_started:
            self.progress.stop()
