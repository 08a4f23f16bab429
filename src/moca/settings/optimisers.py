"""Settings of optimisers and learning-rate schedules."""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from moca.settings.base import Settings, choice, several

LARGEST = 1e30
"""Safely within the range of float32."""


class OptimiserSettings(Settings):
    """Settings that every optimiser has."""

    usual_lr: ClassVar[float] = 0.1
    """The learning rate where a recipe has one for another kind of optimiser."""
    weight_decay: float = Field(0.0, ge=0, le=LARGEST, description="weight decay")
    anew: bool = Field(True, description="reset its state at the start of every task")


class SGD(OptimiserSettings):
    """Stochastic gradient descent."""

    name: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum")
    nesterov: bool = Field(False, description="Nesterov's momentum")


class Adam(OptimiserSettings):
    """Adam."""

    usual_lr = 0.001
    name: Literal["adam"] = "adam"
    beta1: float = Field(0.9, ge=0, lt=1, description="decay of the mean gradient")
    beta2: float = Field(0.999, ge=0, lt=1, description="decay of the mean squared gradient")
    eps: float = Field(1e-8, gt=0, description="added to the root of the mean squared gradient")


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"  # type: ignore[assignment]
    weight_decay: float = Field(0.01, ge=0, le=LARGEST, description="weight decay")


OPTIMISERS = (SGD, Adam, AdamW)
Optimiser = Annotated[SGD | Adam | AdamW, choice("optimiser", *OPTIMISERS)]


class ScheduleSettings(Settings):
    """How the learning rate changes from epoch to epoch."""

    anew: bool = Field(True, description="restart with every task; off: one schedule over all tasks")

    def factor(self, epoch: int, epochs: int) -> float:
        """The factor of the learning rate, 1 at most, in epoch `epoch` (from 0) of `epochs`."""
        raise NotImplementedError


class Constant(ScheduleSettings):
    """A constant learning rate."""

    name: Literal["constant"] = "constant"

    def factor(self, epoch: int, epochs: int) -> float:
        """Always 1."""
        return 1.0


class Steps(ScheduleSettings):
    """The learning rate drops after some epochs."""

    name: Literal["steps"] = "steps"
    at: Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(several)] = Field(
        (35, 45), description="epochs after which it drops"
    )
    by: float = Field(0.1, gt=0, le=1, description="factor of each drop")

    def factor(self, epoch: int, epochs: int) -> float:
        """`by` to the power of the number of drops so far."""
        return float(self.by ** sum(epoch >= end for end in self.at))


class Cosine(ScheduleSettings):
    """The learning rate falls along half a cosine."""

    name: Literal["cosine"] = "cosine"
    final: float = Field(0.0, ge=0, le=1, description="final learning rate, as a share of the initial one")

    def factor(self, epoch: int, epochs: int) -> float:
        """From 1 in the first epoch towards `final` after the last."""
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * epoch / epochs)) / 2


SCHEDULES = (Constant, Steps, Cosine)
Schedule = Annotated[Constant | Steps | Cosine, choice("schedule", *SCHEDULES)]
