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

_AT_ONCE = {"metrics": 1000, "params": 100}
"""What one request may hold."""
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""Unless the user has set them: MLflow's own would hold a run up for minutes when its server goes away."""
_STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}


class MLflow(Tracker):
    """A run of an experiment, on a server of yours or in a folder."""

    uri: str = option(
        "", "http://..., sqlite:///FILE or a folder; empty: $MLFLOW_TRACKING_URI, or MLflow's own default"
    )
    experiment: str = option("moca", "what the runs belong to; made where it is not there")
    extra = "mlflow"
    run: str = ""
    """Its number there, once it has one."""

    def check(self) -> None:
        """A folder is the same one from wherever the run goes on; a password stays out of the run's files."""
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
        """Ask for something small."""
        client = self._client()
        try:
            with _patience():
                client.search_experiments(max_results=1)
        except Exception as error:
            why = _in_short(error)
            raise MocaError(
                f"track=mlflow: '{self.uri or 'the default store'}' cannot be reached ({why}); start it, give another "
                "uri (--track mlflow:uri=...), or leave --track out"
            ) from None

    def open(self, about: About, run: str | None) -> str:
        """A new run with all settings, or an old one that is running again."""
        self.client = self._client()
        with _patience():
            if run:
                self.run = run
                self.client.update_run(run, status="RUNNING")
                return run
            if not self.run:  # one that was made before its settings could be sent is not made again
                tags = {"moca.folder": str(about.folder), "mlflow.source.name": "moca"}
                made = self.client.create_run(self._experiment(), run_name=about.name, tags=tags)
                self.run = str(made.info.run_id)
            params = [self.entities.Param(name, str(value)[:6000]) for name, value in about.settings.items()]
            self._send(params=params)
        return self.run

    def log(self, points: Sequence[Point]) -> None:
        """Metrics, in as few requests as there can be."""
        now = int(1000 * time.time())
        with _patience():
            self._send(metrics=[self.entities.Metric(name, value, now, point.step)
                                for point in points for name, value in point.numbers.items()])  # fmt: skip

    def close(self, status: str, last: Point) -> None:
        """The numbers at the end are metrics, too."""
        self.log([last])
        with _patience():
            self.client.set_tag(self.run, "moca.status", status)
            self.client.set_terminated(self.run, _STATUS.get(status, "FAILED"))

    def _client(self) -> Any:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would tell its makers what is used
        if self._in_folder or self.uri.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # it wants to hear that a folder is meant
        self.entities = self.library("mlflow.entities")
        return self.library("mlflow.tracking").MlflowClient(self.uri or None)

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name(self.experiment)
        return str(found.experiment_id if found else self.client.create_experiment(self.experiment))

    def _send(self, **things: list[Any]) -> None:
        for kind, several in things.items():
            for first in range(0, len(several), _AT_ONCE[kind]):
                self.client.log_batch(self.run, **{kind: several[first : first + _AT_ONCE[kind]]})


@contextmanager
def _patience() -> Iterator[None]:
    """Inside, a server that does not answer is not waited for long."""
    ours = {name: value for name, value in _PATIENCE.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _in_short(error: Exception) -> str:
    """The last cause that it names, which is where the reason is."""
    said = first_line(error) or type(error).__name__
    return said.rpartition(": ")[2].strip("\"')>( ")[:120]
