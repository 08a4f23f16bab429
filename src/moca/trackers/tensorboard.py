"""TensorBoard: event files for `tensorboard --logdir runs`; nothing is sent anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moca.engine.folder import new_folder
from moca.parts import option
from moca.trackers.base import About, Point, Tracker

_SHOWN = ("class_il/mean", "result/final_accuracy", "result/forgetting")
"""Metrics in its table of hyperparameters."""


class TensorBoard(Tracker):
    """Event files in the run's folder, or in a folder of your choice."""

    dir: str = option(
        "", "folder for the event files, with a subfolder per run; empty: tensorboard, in the run's folder"
    )
    extra = "tensorboard"

    def reach(self) -> None:
        """Check that it is installed; there is no server."""
        self.library("tensorboard")
        self.library("torch.utils.tensorboard")

    def open(self, about: About, run: str | None) -> str:
        """Start a new event file; steps of an earlier one that are repeated are hidden."""
        place = self._place(about, run)
        board = self.library("torch.utils.tensorboard")
        self.writer = board.SummaryWriter(str(place), purge_step=about.steps + 1 if run else None)
        if not run:
            self._write_settings(about)
        self.writer.flush()
        return str(place)

    def _place(self, about: About, run: str | None) -> Path:
        if not self.dir:
            return about.folder / "tensorboard"
        if run:
            return Path(run)
        return new_folder(Path(self.dir).expanduser().resolve() / about.name)

    def _write_settings(self, about: About) -> None:
        settings: dict[str, Any] = {name: _plain(value) for name, value in about.settings.items()}
        table = "\n".join(["|setting|value|", "|-|-|", *(f"|{name}|{value}|" for name, value in settings.items())])
        self.writer.add_text("settings", table)
        self.writer.add_text("folder", str(about.folder))
        summaries = self.library("torch.utils.tensorboard.summary").hparams(settings, dict.fromkeys(_SHOWN, 0.0))
        for summary in summaries[:2]:  # the third marks the end of a session
            self.writer.file_writer.add_summary(summary)

    def log(self, points: Sequence[Point]) -> None:
        """Write metrics as scalars."""
        for point in points:
            for name, value in point.numbers.items():
                self.writer.add_scalar(name, value, point.step)
        self.writer.flush()

    def close(self, status: str, last: Point) -> None:
        """Write the final numbers as scalars, and the status."""
        self.log([last])
        self.writer.add_text("status", status, last.step)
        self.writer.close()


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
