"""Settings of the learners."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from moca.settings.base import Settings, choice


class LearnerSettings(Settings):
    """What every learner has."""

    replays: ClassVar[bool] = True
    """Whether it learns from a memory too."""


class Finetune(LearnerSettings):
    """Plain training on each task in turn: the lower bound."""

    replays: ClassVar[bool] = False
    name: Literal["finetune"] = "finetune"


class Joint(LearnerSettings):
    """One network trained on all tasks at once: the upper bound."""

    replays: ClassVar[bool] = False
    name: Literal["joint"] = "joint"


class ER(LearnerSettings):
    """Experience replay."""

    name: Literal["er"] = "er"


class DERpp(LearnerSettings):
    """Dark experience replay++: replayed samples keep their labels and the logits they had when stored."""

    name: Literal["derpp"] = "derpp"
    alpha: float = Field(0.1, ge=0, description="weight of the stored logits")
    beta: float = Field(0.5, ge=0, description="weight of the stored labels")


class ERACE(LearnerSettings):
    """ER with asymmetric cross-entropy: new samples compete only with the classes of their own batch."""

    name: Literal["er_ace"] = "er_ace"


LEARNERS = (Finetune, Joint, ER, DERpp, ERACE)
Learner = Annotated[Finetune | Joint | ER | DERpp | ERACE, choice("learner", *LEARNERS)]
