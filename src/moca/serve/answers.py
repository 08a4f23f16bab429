"""What the service answers, as types: they make the description in /openapi.json."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from moca.data.arrays import Label
from moca.serve.teaching import State


class _Answer(BaseModel):
    model_config = ConfigDict(populate_by_name=True)


class Health(_Answer):
    """That the service is up."""

    status: str = "ok"


class Share(_Answer):
    """How sure the model is of a class, from 0 to 1."""

    label: Label = Field(alias="class")
    share: float


class Prediction(_Answer):
    """The classes of an image, the surest first."""

    image: str = Field(description="name of the file")
    classes: list[Share]


class Predictions(_Answer):
    """One for each image, in their order."""

    version: int | None = Field(description="of the model; null for a finished run")
    predictions: list[Prediction]


class Near(_Answer):
    """A remembered image."""

    label: Label = Field(alias="class")
    angle: float = Field(description="between its features and those of the image asked about, in degrees")
    png: str = Field(description="the image itself, as a data URL")


class NearestOf(_Answer):
    """The remembered images that are nearest to an image; none where the model keeps none."""

    image: str
    remembered: list[Near]


class Nearest(_Answer):
    """One for each image, in their order."""

    version: int | None
    nearest: list[NearestOf]


class KnownClass(_Answer):
    """A class that the model knows."""

    label: Label = Field(alias="class")
    since: int | None = Field(description="version in which it was learnt")
    remembered: int = Field(description="images in the memory")
    png: str | None = Field(default=None, description="one of them as a data URL; not in /api/model")


class PastVersion(_Answer):
    """A version of the model. Accuracies are shares of held-out images; null where there were none."""

    version: int
    in_use: bool
    when: str
    classes: int
    what: str = Field(description="what made it: + ring, square; more of triangle; forgot hexagon")
    new_classes: list[Label]
    images: int | None = Field(description="learnt from")
    old_before: float | None = Field(description="accuracy on the classes known before, before the lesson")
    old_after: float | None = Field(description="the same after it")
    new_after: float | None = Field(description="accuracy on the classes of the lesson")
    forgot: Label | None = Field(description="the class that was forgotten on request, if that made the version")


class Allowed(_Answer):
    """The limits of a request."""

    bytes: int
    images: int
    pixels: int
    requests_a_second: float
    teaching: bool


class About(_Answer):
    """The model: what it is, what it knows, and how its versions did."""

    name: str
    version: int | None
    learner: str
    perturb: str
    encoder: str
    image_size: tuple[int, int, int] = Field(description="width, height, channels")
    classes: list[KnownClass]
    history: list[PastVersion]
    trouble: str | None = Field(description="why what is on disk could not be taken up")
    limits: Allowed


class LessonStatus(_Answer):
    """How far the lesson is, or what came of the last one."""

    state: State
    label: Label | None = Field(alias="class")
    images: int = Field(description="that could be read")
    left_out: list[str] = Field(description="images that could not be read, a line each that says which and why")
    done: int = Field(description="steps")
    steps: int = Field(description="of so many; 0 until that is known")
    told: str = Field(description="the same in words")
    version: int | None = Field(description="that the lesson made")
    held: int | None = Field(description="images held out, to judge by")
    known: int | None = Field(description="images left out, as they were learnt before")
    otherwise: dict[str, int] = Field(description="how many were learnt before as which other class, and are corrected")
    warnings: list[str] = Field(description="what to look into, a sentence each")
    basis: str = Field(description="on how few images the accuracies rest, if they do")
    old_before: float | None
    old_after: float | None
    new_after: float | None
