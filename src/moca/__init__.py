"""moca: continual learning by modeling intra-class variation.

`moca.run(...)` trains one learner, `moca.compare(...)` several; `moca.perturbation(...)` is one line of MOCA for any
training loop. Names are imported when they are first used, so that `import moca` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from moca import data, sphere
    from moca.api import compare, resume, resume_comparison, run
    from moca.batch import Batch
    from moca.classifier import ContinualClassifier, load_model
    from moca.data import Dataset, load
    from moca.data.from_python import dataset
    from moca.engine.result import Result
    from moca.engine.watch import Watcher
    from moca.errors import MocaError
    from moca.learners import Learner
    from moca.measures.analyse import analyse
    from moca.memory import Memory
    from moca.models import CosineHead, LinearHead, Model
    from moca.parts import option, register
    from moca.perturb import Perturbation, perturbation
    from moca.report.comparison import Comparison
    from moca.streams import Stream, Task, class_incremental, domain_incremental
    from moca.trackers import Tracker

_HOME = {
    "Batch": "moca.batch",
    "Comparison": "moca.report.comparison",
    "ContinualClassifier": "moca.classifier",
    "CosineHead": "moca.models",
    "Dataset": "moca.data",
    "Learner": "moca.learners",
    "LinearHead": "moca.models",
    "Memory": "moca.memory",
    "MocaError": "moca.errors",
    "Model": "moca.models",
    "Perturbation": "moca.perturb",
    "Result": "moca.engine.result",
    "Stream": "moca.streams",
    "Task": "moca.streams",
    "Tracker": "moca.trackers",
    "Watcher": "moca.engine.watch",
    "analyse": "moca.measures.analyse",
    "class_incremental": "moca.streams",
    "compare": "moca.api",
    "dataset": "moca.data.from_python",
    "domain_incremental": "moca.streams",
    "load": "moca.data",
    "load_model": "moca.classifier",
    "option": "moca.parts",
    "perturbation": "moca.perturb",
    "register": "moca.parts",
    "resume": "moca.api",
    "resume_comparison": "moca.api",
    "run": "moca.api",
}

__all__ = [
    "Batch",
    "Comparison",
    "ContinualClassifier",
    "CosineHead",
    "Dataset",
    "Learner",
    "LinearHead",
    "Memory",
    "MocaError",
    "Model",
    "Perturbation",
    "Result",
    "Stream",
    "Task",
    "Tracker",
    "Watcher",
    "analyse",
    "class_incremental",
    "compare",
    "data",
    "dataset",
    "domain_incremental",
    "load",
    "load_model",
    "option",
    "perturbation",
    "register",
    "resume",
    "resume_comparison",
    "run",
    "sphere",
]


def __getattr__(name: str) -> Any:
    if name in ("data", "sphere"):
        return import_module(f"moca.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'moca' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
