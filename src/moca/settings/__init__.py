"""The typed settings that the Python API, the command line and recipe files share. Importing them needs no torch."""

from moca.settings.base import Settings, names, options, validate
from moca.settings.bench import Bench
from moca.settings.learners import LEARNERS
from moca.settings.models import HEADS, MODELS
from moca.settings.perturb import PERTURBATIONS
from moca.settings.run import Run, Seeds

__all__ = [
    "HEADS",
    "LEARNERS",
    "MODELS",
    "PERTURBATIONS",
    "Bench",
    "Run",
    "Seeds",
    "Settings",
    "names",
    "options",
    "validate",
]
