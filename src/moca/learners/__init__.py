"""Methods of continual learning, one a file."""

from typing import Any

from moca.learners.derpp import DERpp
from moca.learners.er import ER
from moca.learners.er_ace import ERACE
from moca.learners.finetune import Finetune, Joint
from moca.learners.learner import Learner, Losses

__all__ = ["LEARNERS", "Learner", "Losses"]

LEARNERS: dict[str, type[Learner[Any]]] = {
    "finetune": Finetune,
    "joint": Joint,
    "er": ER,
    "derpp": DERpp,
    "er_ace": ERACE,
}
