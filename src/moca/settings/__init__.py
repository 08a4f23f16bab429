"""The typed settings that the Python API, the command line and recipe files share. Importing them needs no torch."""

from moca.settings.base import Named, Settings, by_name, flat, spelt, validate, word
from moca.settings.bench import Bench
from moca.settings.choice import Absent, Choice, Own, ReadyMade
from moca.settings.heads import HEADS
from moca.settings.method import NONE, Label
from moca.settings.optimisers import OPTIMISERS, SCHEDULES
from moca.settings.run import COMMON, ELSEWHERE, RECIPE, TRAINING, VARIANTS, Run, Seeds

__all__ = [
    "COMMON",
    "ELSEWHERE",
    "HEADS",
    "NONE",
    "OPTIMISERS",
    "RECIPE",
    "SCHEDULES",
    "TRAINING",
    "VARIANTS",
    "Absent",
    "Bench",
    "Choice",
    "Label",
    "Named",
    "Own",
    "ReadyMade",
    "Run",
    "Seeds",
    "Settings",
    "by_name",
    "flat",
    "spelt",
    "validate",
    "word",
]
