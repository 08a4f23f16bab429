"""The result of a run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from moca.engine.folder import RESULT, RunFolder
from moca.engine.intact import intact
from moca.errors import MocaError, Unreadable
from moca.measures.accuracy import Summary, accuracy_over_tasks, final_accuracy, summarise
from moca.settings import Run

Status = Literal["finished", "diverged", "interrupted", "failed"]
"""`failed` means: it could not start, or stopped with an error; no result is saved, so that it can be tried again."""


@dataclass
class Result:
    """The result of a run: its accuracy matrix, the metrics computed from it, its cost, and how it ended."""

    settings: Run
    """The complete settings, including those filled in."""
    folder: Path
    """The run folder."""
    status: Status
    """How it ended."""
    message: str = ""
    """If the run did not finish: why, in one line."""
    accuracy_matrix: list[list[float]] = field(default_factory=list)
    """R[i][j]: accuracy on task j after i tasks, among all classes."""
    task_il_matrix: list[list[float]] = field(default_factory=list)
    """The same, among the classes of the sample's own task."""
    steps: int = 0
    """Training steps."""
    seconds: float = 0.0
    """Training time without evaluation; if runs take turns on a GPU, it includes the turns of the others."""
    images_per_second: float = 0.0
    """New and replayed images trained on per second."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Versions, hardware and the fingerprint of the images."""
    notes: list[str] = field(default_factory=list)
    """Caveats about the numbers."""
    images_this_time: int = field(default=0, compare=False)
    """New and replayed images trained on since the run was opened; 0 in a loaded result."""
    task_classes: list[int] = field(default_factory=list)
    """How many classes each task is tested on."""
    over_stream: list[list[float]] = field(default_factory=list)
    """Evaluations in the middle of tasks: steps so far, and the mean accuracy over the tasks begun by then."""
    started: str = field(default="", compare=False)
    """When it was started, in UTC as ISO 8601; empty in results of older versions."""
    class_names: list[str] = field(default_factory=list)
    """The class names in order of arrival; empty in results of older versions."""

    def __post_init__(self) -> None:
        self.folder = self.folder.absolute()  # the working directory may change later

    @property
    def finished(self) -> bool:
        """Whether the run finished; only then are its numbers valid."""
        return self.status == "finished"

    @property
    def summary(self) -> Summary:
        """Final and average incremental accuracy, forgetting, backward and forward transfer; NaN if unfinished."""
        if not self.finished:
            return Summary(*[math.nan] * 5)
        return summarise(self.accuracy_matrix, self.task_classes)

    @property
    def final_accuracy(self) -> float:
        """Mean accuracy over all tasks at the end."""
        return self.summary.final_accuracy

    @property
    def task_il_accuracy(self) -> float:
        """Final accuracy when the task of each sample is given."""
        return final_accuracy(self.task_il_matrix, self.task_classes) if self.finished else math.nan

    @property
    def anytime_accuracy(self) -> float:
        """Mean over the evaluations in the middle of tasks (`evaluate_every`); NaN if there were none."""
        accuracies = [mean for _, mean in self.over_stream]
        return math.fsum(accuracies) / len(accuracies) if accuracies else math.nan

    @property
    def accuracy_over_tasks(self) -> list[float]:
        """Mean accuracy over the tasks learned so far, after each task; empty if unfinished."""
        return accuracy_over_tasks(self.accuracy_matrix, self.task_classes) if self.finished else []

    def numbers(self) -> dict[str, float]:
        """Every scalar of the run by name."""
        on_the_way = {"anytime_accuracy": self.anytime_accuracy} if self.over_stream else {}
        return asdict(self.summary) | {
            "task_il_accuracy": self.task_il_accuracy,
            **on_the_way,
            "seconds": self.seconds,
            "images_per_second": self.images_per_second,
        }

    def save(self) -> None:
        """Write result.json."""
        RunFolder(self.folder).write_json(
            RESULT,
            {
                "status": self.status,
                "message": self.message,
                **{name: null_if_nan(value) for name, value in self.numbers().items()},
                "steps": self.steps,
                "accuracy_matrix": self.accuracy_matrix,
                "task_il_matrix": self.task_il_matrix,
                "task_classes": self.task_classes,
                "over_stream": self.over_stream,
                "class_names": self.class_names,
                "started": self.started,
                "environment": self.environment,
                "notes": self.notes,
            },
        )

    @classmethod
    def load(cls, path: str | Path, loaded: bool = True) -> Result:
        """Load the result of an earlier run from its folder; for `loaded`, see `RunFolder.settings`."""
        folder = RunFolder.open(Path(path))
        if not (folder.path / RESULT).exists():
            raise MocaError(f"run '{path}' has not ended; continue with: moca.resume({str(path)!r})")
        saved = folder.read_json(RESULT)
        own, settings = {f.name for f in fields(cls)} & saved.keys(), folder.settings(loaded)
        if not intact(saved):
            raise Unreadable(f"{folder.path / RESULT} is damaged; remove it, and the run can be done again")
        return cls(settings, folder.path, **{name: saved[name] for name in own})

    def __repr__(self) -> str:
        return f"<Result {self.status}: {json.dumps({k: round(v, 4) for k, v in self.numbers().items()})}>"


def null_if_nan(value: float) -> float | None:
    """The number, or None if it is not finite, which JSON cannot represent."""
    return value if math.isfinite(value) else None
