"""Weights & Biases: runs of a project, in its cloud, on your own server, or offline in files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from moca.errors import MocaError, first_line
from moca.parts import option
from moca.trackers.base import About, Point, Tracker

_WAIT = 60
"""Seconds for it to answer, and at the end to send what is left; whatever is not sent stays in local files."""


class WandB(Tracker):
    """A run of a project."""

    project: str = option("moca", "project of the runs")
    entity: str | None = option(None, "user or team that owns the project")
    group: str | None = option(None, "group of runs to show together, such as one comparison")
    mode: Literal["online", "offline"] | None = option(None, "offline writes files only; empty: $WANDB_MODE, or online")
    extra = "wandb"

    def reach(self) -> None:
        """Check the login, unless it is used offline."""
        wandb = self._library()
        if self._mode() != "online":
            return
        try:
            logged_in = wandb.login(prompt=False, verify=True)
        except Exception as error:
            why = (first_line(error) or type(error).__name__)[:200]
            raise MocaError(
                f"track=wandb cannot reach its server ({why}); try again, or write files only with "
                "track=wandb:mode=offline"
            ) from None
        if not logged_in:
            raise MocaError(
                "track=wandb has no API key; run wandb login, or write files only with track=wandb:mode=offline"
            )

    def open(self, about: About, run: str | None) -> str:
        """Start a run with all settings, or resume an earlier one."""
        wandb = self._library()
        offline = self._mode() != "online"
        settings = wandb.Settings(
            console="off", silent=True, init_timeout=_WAIT, finish_timeout=_WAIT, save_code=False, disable_git=True,
            x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True,
        )  # fmt: skip
        self.run = wandb.init(
            project=self.project, entity=self.entity, group=self.group, mode=self.mode, name=about.name, id=run,
            dir=about.folder, config={**about.settings, "folder": str(about.folder)},
            resume="allow" if run and not offline else None, reinit="create_new", settings=settings,
            allow_val_change=True,
        )  # fmt: skip
        return str(self.run.id)

    def log(self, points: Sequence[Point]) -> None:
        """Log metrics; W&B sends them from its own process."""
        for point in points:
            self.run.log(point.numbers, step=point.step)

    def close(self, status: str, last: Point) -> None:
        """Write the final numbers and the status to the summary."""
        self.run.summary.update(last.numbers | {"status": status})
        self.run.finish(exit_code=0 if status in ("finished", "interrupted") else 1)

    def _mode(self) -> str:
        return self.mode or os.environ.get("WANDB_MODE") or "online"

    def _library(self) -> Any:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it would report errors to its makers
        return self.library("wandb")
