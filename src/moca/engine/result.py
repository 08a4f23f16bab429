"""What a run found out."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from moca.engine.folder import RESULT, RunFolder
from moca.errors import MocaError
from moca.measures import Summary, accuracy_over_tasks, summarise
from moca.measures.accuracy import final_accuracy
from moca.settings import Run

Status = Literal["finished", "diverged", "interrupted", "failed"]
"""Failed: it could not be begun, or went no further; nothing is written down, so that it can be tried again."""


@dataclass
class Result:
    """What a run found out: its accuracy matrix, the numbers made from it, its cost, and how it ended."""

    settings: Run
    """All settings, with what was filled in."""
    folder: Path
    """Where its files are."""
    status: Status
    """How it ended."""
    message: str = ""
    """One line for the user when the run did not finish."""
    accuracy_matrix: list[list[float]] = field(default_factory=list)
    """R[i][j]: accuracy on task j after i tasks, all classes competing."""
    task_il_matrix: list[list[float]] = field(default_factory=list)
    """The same, only the classes of the sample's own task competing."""
    steps: int = 0
    """Steps of training."""
    seconds: float = 0.0
    """Training time, evaluation excluded; where runs take turns on a GPU, the turns of the others count too."""
    images_per_second: float = 0.0
    """New and replayed images trained on in a second."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Versions, hardware and the fingerprint of the images behind the numbers."""
    notes: list[str] = field(default_factory=list)
    """What the user should know about these numbers."""
    images_this_time: int = field(default=0, compare=False)
    """New and replayed images trained on since the run was opened; none in a result that was loaded."""
    task_classes: list[int] = field(default_factory=list)
    """How many classes each task is judged on."""
    over_stream: list[list[float]] = field(default_factory=list)
    """Where it was evaluated on the way: after how many steps, and the mean accuracy over the tasks begun by then."""
    started: str = field(default="", compare=False)
    """When it was begun, in UTC as ISO 8601 writes it; empty in results of older versions."""
    class_names: list[str] = field(default_factory=list)
    """What the classes are called, in the order in which they arrive; empty in results of older versions."""

    def __post_init__(self) -> None:
        self.folder = self.folder.absolute()  # it is asked for again later, from wherever the program is by then

    @property
    def finished(self) -> bool:
        """Whether it came to its end; only then its numbers count."""
        return self.status == "finished"

    @property
    def summary(self) -> Summary:
        """Final and average incremental accuracy, forgetting, backward and forward transfer; NaN for half a run."""
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
        """Mean accuracy over the stream, of the tasks begun by then; NaN where it was not evaluated on the way."""
        accuracies = [mean for _, mean in self.over_stream]
        return math.fsum(accuracies) / len(accuracies) if accuracies else math.nan

    @property
    def accuracy_over_tasks(self) -> list[float]:
        """Mean accuracy over the tasks learned so far, after each of them; empty for half a run."""
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
    def load(cls, path: str | Path) -> Result:
        """The result of an earlier run, from its folder."""
        folder = RunFolder.open(Path(path))
        if not (folder.path / RESULT).exists():
            raise MocaError(f"run '{path}' has not ended; go on with: moca resume {shlex.quote(str(path))}")
        kept = folder.read_json(RESULT)
        own, settings = {f.name for f in fields(cls)} & kept.keys(), folder.settings()
        try:
            result = cls(settings, folder.path, **{name: kept[name] for name in own})
            if result.finished and not all(map(len, result.accuracy_matrix or [[]])):
                raise ValueError("no accuracies")
            result.numbers()
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            raise MocaError(f"{folder.path / RESULT} is damaged; remove it, and the run can be done again") from None
        return result

    def __repr__(self) -> str:
        return f"<Result {self.status}: {json.dumps({k: round(v, 4) for k, v in self.numbers().items()})}>"


def null_if_nan(value: float) -> float | None:
    """A number as JSON can hold it."""
    return value if math.isfinite(value) else None
