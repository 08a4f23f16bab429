"""Response types of the service, which also make up its description in /openapi.json."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from moca.data.arrays import Label
from moca.serve.teaching import State


class _Answer(BaseModel):
    model_config = ConfigDict(populate_by_name=True)


class Health(_Answer):
    """The service is up, with the version that answers. Needs no key, so it says no more."""

    status: str = "ok"
    version: int | None = Field(description="version that answers; null for a finished run")
    trouble: bool = Field(description="whether the version in use on disk could not be loaded; /api/model says why")


class Share(_Answer):
    """The probability of a class, from 0 to 1."""

    label: Label = Field(alias="class")
    share: float


class Prediction(_Answer):
    """The classes of an image, the most probable first."""

    image: str = Field(description="name of the file")
    classes: list[Share]


class Predictions(_Answer):
    """One prediction per image, in the order of the images."""

    version: int | None = Field(description="version of the model; null for a finished run")
    predictions: list[Prediction]


class Near(_Answer):
    """An image in memory."""

    label: Label = Field(alias="class")
    angle: float = Field(description="angle between its features and those of the uploaded image, in degrees")
    png: str = Field(description="the image itself, as a data URL")


class NearestOf(_Answer):
    """The images in memory that are nearest to an image; empty if the memory holds no images."""

    image: str
    remembered: list[Near]


class Nearest(_Answer):
    """One result per image, in the order of the images."""

    version: int | None
    nearest: list[NearestOf]


class KnownClass(_Answer):
    """A class that the model knows."""

    label: Label = Field(alias="class")
    since: int | None = Field(description="version in which it was learnt; null if that one is no longer there")
    remembered: int = Field(description="number of its images in memory, or of features of them")
    correct: int = Field(description="number of its held-out images that are classified correctly")
    held: int = Field(description="number of its held-out images")
    png: str | None = Field(default=None, description="one of these as a data URL; not in /api/model")


class PastVersion(_Answer):
    """A version of the model. Accuracies are shares of held-out images; null if there were none."""

    version: int
    in_use: bool
    when: str
    classes: int
    what: str = Field(description="how it came about: + ring, square; more of triangle; forgot hexagon")
    new_classes: list[Label]
    images: int | None = Field(description="number of training images")
    old_before: float | None = Field(description="accuracy on the classes known before, before the lesson")
    old_after: float | None = Field(description="the same after it")
    new_after: float | None = Field(description="accuracy on the classes of the lesson")
    forgot: Label | None = Field(description="the class that this version forgot on request, if any")


class Allowed(_Answer):
    """The limits of a request."""

    bytes: int
    images: int
    pixels: int
    requests_a_second: float
    teaching: bool


class About(_Answer):
    """The model: its settings, its classes, and its versions with their accuracies."""

    name: str
    version: int | None
    learner: str
    perturb: str
    encoder: str
    image_size: tuple[int, int, int] = Field(description="width, height, channels")
    classes: list[KnownClass]
    history: list[PastVersion]
    damaged: list[str] = Field(description="a line for each version that cannot be read and is left out of the history")
    trouble: str | None = Field(description="why the version in use on disk could not be loaded, if so")
    limits: Allowed


class LessonStatus(_Answer):
    """Progress of the current lesson, or the result of the last one."""

    state: State
    label: Label | None = Field(alias="class")
    images: int = Field(description="images that could be read")
    left_out: list[str] = Field(description="one line for each image that could not be read: which, and why")
    done: int = Field(description="steps done")
    steps: int = Field(description="steps in all; 0 until that is known")
    told: str = Field(description="the state in words")
    version: int | None = Field(description="version that the lesson made")
    held: int | None = Field(description="images held out for evaluation")
    known: int | None = Field(description="images skipped because they were learnt before")
    otherwise: dict[str, int] = Field(description="images learnt before as another class and now corrected, by class")
    warnings: list[str] = Field(description="what to look into, a sentence each")
    basis: str = Field(description="warnings about accuracies that rest on few held-out images")
    old_before: float | None
    old_after: float | None
    old_apart: float | None = Field(description="the same with the scores of old classes only")
    new_after: float | None
