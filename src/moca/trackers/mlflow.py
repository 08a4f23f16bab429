"""MLflow: runs on a tracking server, in a database or in a folder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moca.errors import MocaError, first_line
from moca.parts import option
from moca.trackers.base import About, Point, Tracker

_BATCH = {"metrics": 1000, "params": 100}
"""Most entries of one request."""
_TIMEOUTS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""Used unless the user has set them: MLflow's defaults would block a run for minutes if its server goes away."""
_STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}


class MLflow(Tracker):
    """A run of an experiment, on your own server or in a folder."""

    uri: str = option(
        "", "http://..., sqlite:///FILE or a folder; empty: $MLFLOW_TRACKING_URI, or MLflow's own default"
    )
    experiment: str = option("moca", "experiment of the runs; created if it does not exist")
    extra = "mlflow"
    run: str = ""
    """Id of the run in MLflow, once it has one."""

    def check(self) -> None:
        """Make a folder's path absolute, so that a resumed run finds it; refuse passwords, which would be saved."""
        if re.search(r"://[^\s/@]*:[^\s/@]*@", self.uri):
            raise MocaError(
                "track=mlflow: options are written down with the run, so leave the password out of the uri; put it "
                "into MLFLOW_TRACKING_PASSWORD, or all of the uri into MLFLOW_TRACKING_URI"
            )
        if self._in_folder:
            self.uri = str(Path(self.uri).expanduser().resolve())

    @property
    def _in_folder(self) -> bool:
        return bool(self.uri) and "://" not in self.uri and not self.uri.startswith("file:")

    def reach(self) -> None:
        """Send a small request."""
        client = self._client()
        try:
            with _short_timeouts():
                client.search_experiments(max_results=1)
        except Exception as error:
            why = _in_short(error)
            raise MocaError(
                f"track=mlflow: '{self.uri or 'the default store'}' cannot be reached ({why}); start it, give another "
                "uri (track=mlflow:uri=...), or leave track= out"
            ) from None

    def open(self, about: About, run: str | None) -> str:
        """Create a run with all settings, or set an earlier one to running again."""
        self.client = self._client()
        with _short_timeouts():
            if run:
                self.run = run
                self.client.update_run(run, status="RUNNING")
                return run
            if not self.run:  # else an earlier call created it but could not send its settings
                tags = {"moca.folder": str(about.folder), "mlflow.source.name": "moca"}
                made = self.client.create_run(self._experiment(), run_name=about.name, tags=tags)
                self.run = str(made.info.run_id)
            params = [self.entities.Param(name, str(value)[:6000]) for name, value in about.settings.items()]
            self._send(params=params)
        return self.run

    def log(self, points: Sequence[Point]) -> None:
        """Send metrics, in as few requests as possible."""
        now = int(1000 * time.time())
        with _short_timeouts():
            self._send(metrics=[self.entities.Metric(name, value, now, point.step)
                                for point in points for name, value in point.numbers.items()])  # fmt: skip

    def close(self, status: str, last: Point) -> None:
        """Log the final numbers as metrics, and set the status."""
        self.log([last])
        with _short_timeouts():
            self.client.set_tag(self.run, "moca.status", status)
            self.client.set_terminated(self.run, _STATUS.get(status, "FAILED"))

    def _client(self) -> Any:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report usage to its makers
        if self._in_folder or self.uri.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # folders need an explicit opt-in
        self.entities = self.library("mlflow.entities")
        return self.library("mlflow.tracking").MlflowClient(self.uri or None)

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name(self.experiment)
        return str(found.experiment_id if found else self.client.create_experiment(self.experiment))

    def _send(self, **things: list[Any]) -> None:
        for kind, several in things.items():
            for first in range(0, len(several), _BATCH[kind]):
                self.client.log_batch(self.run, **{kind: several[first : first + _BATCH[kind]]})


@contextmanager
def _short_timeouts() -> Iterator[None]:
    """A context in which MLflow does not wait long for a server that does not answer."""
    ours = {name: value for name, value in _TIMEOUTS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _in_short(error: Exception) -> str:
    """The last part of an error message, which names the underlying cause."""
    message = first_line(error) or type(error).__name__
    return message.rpartition(": ")[2].strip("\"')>( ")[:120]
