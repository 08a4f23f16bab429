"""Builds models from settings, or around a user-defined encoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from moca.errors import MocaError, first_line
from moca.models.encoders.base import Encoder
from moca.models.encoders.pretrained import Pretrained
from moca.models.evaluating import evaluating
from moca.models.heads import build_head
from moca.models.model import WRAP, Model
from moca.parts import ENCODERS
from moca.random import derive, seeded
from moca.settings import Choice
from moca.settings import heads as settings

Shape = tuple[int, int, int]


class Made(NamedTuple):
    """An encoder with its properties."""

    body: nn.Module
    choice: Choice
    """The setting that makes such an encoder with fresh weights; for a pretrained one, that of the encoder inside."""
    features: int
    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None
    """Mean and standard deviation of each channel that it was trained with, if it says so."""
    untrained: bool
    """Whether its weights are known to be random; False for a user-defined encoder, where this is unknown."""


def build_model(
    encoder: Choice,
    head: settings.Cosine | settings.Linear | settings.Simplex,
    shape: Shape,
    classes: int,
    seed: int = 0,
    outputs: int = 1,
) -> Model:
    """The model that the settings describe, with `outputs` outputs for each class. Initial weights depend on the seed,
    unless the encoder brings its own."""
    with seeded(derive(seed, "init")):
        made = _made(encoder, shape)
        model = Model(made.body, build_head(head, made.features, classes * outputs), outputs)
        model.made_by = made.choice
        return model


def made_encoder(choice: Choice, shape: Shape) -> Made:
    """An encoder without a head, initialised with seed 0 unless it brings its own weights."""
    with seeded(derive(0, "init")):
        return _made(choice, shape)


def _made(choice: Choice, shape: Shape) -> Made:
    body = make_encoder(choice, shape)
    normalisation = _normalisation(body, shape[0], choice.name)
    untrained = choice.name in ENCODERS.built_in and not choice.own and any(True for _ in body.parameters())
    if isinstance(body, Pretrained):
        body, choice, untrained = body.within, body.architecture, False
    features = body.features if isinstance(body, Encoder) else _features(body, shape, choice.name)
    return Made(body, choice, features, normalisation, untrained)


def _normalisation(body: nn.Module, channels: int, name: str) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The encoder's `normalisation` attribute, checked: mean and standard deviation of each channel it was trained
    with."""
    given: Any = getattr(body, "normalisation", None)
    if given is None or isinstance(body, Pretrained):
        return given  # type: ignore[no-any-return]
    try:
        mean, std = (tuple(map(float, numbers)) for numbers in given)
        if len(mean) == len(std) == channels and min(std) > 0:
            return mean, std
    except (TypeError, ValueError):
        pass
    raise MocaError(
        f"normalisation of model '{name}' must be (mean, std), each with a number for every channel ({channels}), not "
        f"{given!r}"
    )


def make_encoder(choice: Choice, shape: Shape) -> Any:
    """The chosen encoder: built for images of this shape, or a copy of the given module."""
    body = choice.make(shape)
    if isinstance(body, Model):
        raise MocaError("model= is the encoder alone, and a moca.Model has a classifier too; give its .encoder")
    if not isinstance(body, nn.Module):
        raise MocaError(
            f"model '{choice.name}' must be a torch module or make one; it is of type {type(body).__name__}"
        )
    return body


def _features(body: nn.Module, shape: Shape, name: str) -> int:
    """The feature length of an encoder that does not declare it, found by passing two black images through it."""
    where = next((tensor.device for tensor in (*body.parameters(), *body.buffers())), torch.device("cpu"))
    try:
        with torch.no_grad(), evaluating(body):
            made = body(torch.zeros(2, *shape, device=where))
    except Exception as error:
        size, other = "x".join(map(str, shape)), {p.dtype for p in body.parameters()} - {torch.float32}
        hint = "; moca hands it float32: make it so with .float() (precision=bf16 computes in less)" if other else ""
        raise MocaError(f"model '{name}' cannot take images of {size}: {first_line(error)}{hint}") from None
    if not isinstance(made, torch.Tensor) or made.dim() != 2 or len(made) != 2:
        got = tuple(made.shape) if isinstance(made, torch.Tensor) else type(made).__name__
        raise MocaError(
            f"model '{name}' must make one feature vector of each image: (2, d) of 2 images, not {got}; {WRAP}"
        )
    return made.shape[1]
