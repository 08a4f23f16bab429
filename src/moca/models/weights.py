"""Reads a user's weights for an encoder: from a finished run, a model folder, or a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor, nn

from moca.errors import MocaError, first_line
from moca.parts import ENCODERS
from moca.settings import Choice
from moca.settings.choice import choice_of

_PREFIX = "encoder."
"""Prefix of the encoder's tensors in a whole model."""


@dataclass(frozen=True)
class Weights:
    """The weights of an encoder, and the setting that builds it."""

    source: Path
    encoder: Choice
    tensors: dict[str, Tensor]
    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Mean and standard deviation of each channel that it was trained with, if known."""


def read_weights(source: Path, base: str | None) -> Weights:
    """Read the weights at a path; `base` names the encoder if the source does not."""
    if not source.exists():
        raise MocaError(
            f"weights '{source}' are not there; give a finished run, a model, or a file of weights (a run that was "
            "stopped needs its own back)"
        )
    about, tensors = _of_folder(source) if source.is_dir() else _of_file(source)
    if about.get("settings", {}).get("frozen"):
        raise MocaError(f"'{source}' learnt on a frozen encoder; give the weights that it was frozen with")
    spec: Any = about["settings"]["model"] if about else base and base.replace("/", ",")
    if not spec:
        raise MocaError(f"'{source}' does not say which encoder it is of; say it with base, such as base=resnet18")
    choice = choice_of(ENCODERS, spec)
    if choice.name == "pretrained":
        raise MocaError(f"base = '{base}': say which encoder the weights are of, such as base=resnet18")
    protocol = about.get("protocol")
    normalisation = (tuple(protocol["mean"]), tuple(protocol["std"])) if protocol else None
    return Weights(source, choice, tensors, normalisation)


def _of_folder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and encoder weights of a finished run or a model."""
    from moca.classifier.folder import ModelFolder

    about, state = ModelFolder(path).contents()
    return about, _of_encoder(state["model"])


def _of_file(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and encoder weights of a file; only files written by a run have metadata."""
    about: dict[str, Any] = {}
    try:
        if path.suffix == ".safetensors":
            with safetensors.safe_open(path, "pt") as file:
                about = json.loads((file.metadata() or {}).get("moca", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dictionary
        else:
            tensors = dict(torch.load(path, weights_only=True, map_location="cpu"))
    except Exception as error:
        raise MocaError(f"weights '{path}' cannot be read: {first_line(error)}; a state_dict is needed") from None
    if not tensors or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise MocaError(f"weights '{path}' hold something else than tensors by name; save the state_dict of an encoder")
    return about, _of_encoder(tensors)


def _of_encoder(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The encoder's tensors of a whole model, with their names in the encoder; any other tensors unchanged."""
    own = {name.removeprefix(_PREFIX): value for name, value in tensors.items() if name.startswith(_PREFIX)}
    return own or tensors


def fill(encoder: nn.Module, weights: Weights, shape: tuple[int, int, int]) -> None:
    """Load weights into an encoder; if they do not fit, the error names the first tensor that does not."""
    here, there = encoder.state_dict(), weights.tensors
    for name in sorted(here.keys() | there.keys()):
        mine, given = (tuple(part[name].shape) if name in part else None for part in (here, there))
        if mine != given:
            size = "x".join(map(str, shape))
            mismatch = f"'{name}' is {given or 'missing'} there and {mine or 'missing'} in it"
            raise MocaError(
                f"weights '{weights.source}' do not fit {weights.encoder} for images of {size}: {mismatch}; give the "
                "encoder and the kind of images that they were trained with"
            )
    encoder.load_state_dict(there)
