"""Settings of the perturbations: how far and which way replayed old-class features are moved."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from moca.errors import MocaError
from moca.settings.base import Settings, choice


class PerturbSettings(Settings):
    """What every perturbation has: how far it moves a feature on its sphere."""

    lam: float = Field(2.0, ge=0, alias="lambda", description="length of the unit direction added to the unit feature")
    fixed_angle: float | None = Field(None, gt=0, lt=180, description="rotate by exactly this many degrees instead")
    angle_cap: float | None = Field(None, gt=0, lt=180, description="rotate by at most this many degrees")

    @model_validator(mode="after")
    def _one_constraint(self) -> Self:
        if self.fixed_angle is not None and self.angle_cap is not None:
            raise MocaError("fixed_angle and angle_cap exclude each other; give one of them")
        return self


class NoPerturbation(Settings):
    """Plain replay: features stay where they are."""

    name: Literal["none"] = "none"


class Gaussian(PerturbSettings):
    """Isotropic Gaussian noise."""

    name: Literal["gaussian"] = "gaussian"
    unit: bool = Field(True, description="scale the noise to unit length; off is the paper's literal formula")


class VMF(PerturbSettings):
    """A von Mises-Fisher sample around the feature's own direction."""

    name: Literal["vmf"] = "vmf"
    kappa: float = Field(100.0, ge=0, le=1e9, description="concentration; 0 is uniform on the sphere")
    noise: Literal["sample", "difference"] = Field("sample", description="n = z (paper) or n = z - u (official code)")
    sampler: Literal["exact", "official"] = Field("exact", description="official: its biased envelope for kappa > 11")


class DOAOld(PerturbSettings):
    """Dropout-based augmentation from the replayed sample's own feature."""

    name: Literal["doa_old"] = "doa_old"
    rate: float = Field(0.5, ge=0, lt=1, description="dropout rate")
    site: Literal["feature", "stages"] = Field("feature", description="drop the final feature, or after every stage")


class DOANew(DOAOld):
    """Dropout-based augmentation from a new sample's feature."""

    name: Literal["doa_new"] = "doa_new"  # type: ignore[assignment]


class VT(PerturbSettings):
    """Variation transfer: old classes borrow the spread of new ones."""

    name: Literal["vt"] = "vt"
    center: Literal["class", "batch", "classifier"] = Field(
        "class", description="what is subtracted: running class mean, mean of the new batch, or classifier row (code)"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of the running class means")


class WAP(PerturbSettings):
    """Weight-adversarial perturbation: features of a network stepped towards calling old samples new."""

    name: Literal["wap"] = "wap"
    steps: int = Field(1, ge=1, description="T, inner steps")
    step_size: float = Field(10.0, gt=0, description="gamma (relative) or zeta (absolute)")
    relative: bool = Field(True, description="multiply the step by the current learning rate")
    radius: float | None = Field(None, gt=0, description="epsilon, radius of the L2 ball around the weights")
    rows: Literal["old", "all"] = Field("old", description="replayed rows that the inner step sees")
    labels: Literal["batch", "random"] = Field("batch", description="adversarial labels: the new batch's, or drawn")


class AddNew(PerturbSettings):
    """Move towards a new sample's feature."""

    name: Literal["add_new"] = "add_new"


class MinusNew(PerturbSettings):
    """Move away from a new sample's feature."""

    name: Literal["minus_new"] = "minus_new"


class FGSM(PerturbSettings):
    """The feature's own adversarial direction (fast gradient sign)."""

    name: Literal["fgsm"] = "fgsm"


PERTURBATIONS = (NoPerturbation, Gaussian, VMF, DOAOld, DOANew, VT, WAP, AddNew, MinusNew, FGSM)
Perturb = Annotated[
    NoPerturbation | Gaussian | VMF | DOAOld | DOANew | VT | WAP | AddNew | MinusNew | FGSM,
    choice("perturbation", *PERTURBATIONS),
]


class Choice(Settings):
    """A perturbation written in any of the accepted forms."""

    perturb: Perturb
