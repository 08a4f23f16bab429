"""Export a classifier as an ONNX file: raw images in, scores and probabilities out."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moca import __version__
from moca.atomic import whole
from moca.classifier.summary import listed
from moca.data import Transform
from moca.engine.learning import Learning
from moca.errors import MocaError, first_line
from moca.overwriting import ONNX, replaceable
from moca.wording import counted

if TYPE_CHECKING:
    from moca.classifier.classifier import Classifier

_OPSET = 17
_TOLERANCE = 1e-4
"""Largest accepted difference between a probability of the ONNX file and of the classifier."""
_COMPARED = 16
"""Images on which the file is compared with the classifier."""


class Exported(NamedTuple):
    """A file that was written."""

    path: Path
    replaced: str
    """What was in the file before, in words, if that was another model or version; else empty."""


def export(classifier: Classifier, path: str | os.PathLike[str]) -> Exported:
    """Write the classifier's prediction as an ONNX file, after checking that onnxruntime gives the same probabilities.

    Input: `images`, uint8 (n, channels, height, width), normalised inside, or `vectors`, float32 (n, d). Outputs:
    `scores` and `probabilities`, float32 (n, classes). Classes, shape, the model's version and
    moca's are in its metadata, as JSON under `moca`.
    """
    onnx, onnxruntime = _needed()
    target = Path(path).expanduser()
    if target.is_dir():
        raise MocaError(f"'{target}' is a folder; name a file, such as {target / 'model.onnx'}")
    before = target.read_bytes() if replaceable(target, ONNX).is_file() else b""
    twin = _in_float32_on_the_cpu(classifier)
    model = onnx.load_from_string(_traced(twin))
    onnx.helper.set_model_props(model, {"moca": json.dumps(_about(twin))})
    content: bytes = model.SerializeToString()
    _check(content, twin, onnxruntime)
    try:
        with whole(target) as part:
            part.write_bytes(content)
    except OSError as error:
        raise MocaError(f"'{target}' cannot be written: {error.strerror}; choose another place") from None
    return Exported(target, _told(before) if before.strip() and before != content else "")


def _told(content: bytes) -> str:
    """What an exported file says of its model: "version 1 with 2 classes (ring, square)"."""
    onnx, _ = _needed()
    try:
        metadata = {one.key: one.value for one in onnx.load_from_string(content).metadata_props}
        about = json.loads(metadata["moca"])
        version, classes = about.get("version"), about["classes"]
    except Exception:  # of a damaged file protobuf may raise anything
        return "a file that cannot be read"
    which = "a model" if version is None else f"version {version}"
    return f"{which} with {counted(len(classes), 'class', 'classes')} ({listed(classes)})"


def _needed() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise MocaError("ONNX files need an extra; install it with: pip install 'moca-cl[onnx]'") from None
    return onnx, onnxruntime


def _in_float32_on_the_cpu(classifier: Classifier) -> Classifier:
    """A copy of the classifier with its own model, on the CPU in float32, so that only plain operations are traced."""
    twin, known = copy(classifier), classifier.learning_
    settings = known.settings.model_copy(update={"device": "cpu", "precision": "fp32"})
    twin.learning_ = Learning(settings, classifier.protocol_, classifier.sample_shape, known.classes)
    if classifier.frozen_ is not None:
        twin.frozen_ = classifier.frozen_.on_the_cpu()
    twin.learning_.load_state_dict(known.state())
    return twin


class _Prediction(nn.Module):
    """Scores and probabilities of raw images, computed by the learner's own `predict`."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        learning = classifier.learning_
        self.model, self.predict, self.classes = learning.model, learning.predict, len(classifier.classes_)
        self.view = Transform.plain(classifier.protocol_, learning.device)
        frozen = classifier.frozen_
        self.first = None if frozen is None else frozen.encoder
        self.first_view = None if frozen is None else Transform.plain(frozen.protocol, learning.device)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        if self.first is not None and self.first_view is not None:
            images = self.first(self.first_view(images))
        if images.dim() == 2:
            images = images[:, :, None, None]
        scores = self.predict(self.view(images))[:, : self.classes]
        return scores, scores.softmax(1)


def _traced(classifier: Classifier) -> bytes:
    """ONNX bytes from torch's tracing exporter: the newer one needs more packages, takes seconds, and does not support
    distances (iCaRL)."""
    images = _some_images(classifier)[:2]
    written: Any = io.BytesIO()  # accepted, although the annotation says otherwise
    names = (_input(images), "scores", "probabilities")
    try:
        with torch.no_grad(), _traceable_and_quiet():
            torch.onnx.export(
                _Prediction(classifier).eval(),
                (images,),
                written,
                dynamo=False,
                opset_version=_OPSET,
                input_names=names[:1],
                output_names=names[1:],
                dynamic_axes={name: {0: "n"} for name in names},
            )
    except Exception as error:
        raise MocaError(f"this model cannot be written as ONNX: {first_line(error)}") from error
    content: bytes = written.getvalue()
    return content


@contextmanager
def _traceable_and_quiet() -> Iterator[None]:
    """Allow tracing `functional_call` and torch's attention, and silence the exporter's warnings and failure logs.

    `functional_call` refuses to be traced because a trace does not know which tensors it was called with; here they all
    become constants. In evaluation, torch computes attention by one operation that ONNX does not have.
    """
    with (
        patch.object(torch.backends.mha, "get_fastpath_enabled", lambda: False),
        warnings.catch_warnings(),
        patch.object(torch.jit, "is_tracing", lambda: False),
        patch.object(torch._C, "_jit_onnx_log", lambda *message: None, create=True),
    ):
        warnings.simplefilter("ignore")
        yield


def _about(classifier: Classifier) -> dict[str, Any]:
    about = classifier.about()
    return {
        "moca": __version__,
        "version": classifier.version_,
        "classes": about["classes"],
        "shape": classifier.shape_,
        "learner": str(classifier.settings_.learner),
        "model": str(classifier.settings_.model),
    }


def _check(content: bytes, classifier: Classifier, onnxruntime: Any) -> None:
    """Raise unless the file gives the classifier's probabilities (and so, up to ties, its predictions), for a batch and
    for a single image."""
    images = _some_images(classifier)
    for some in (images, images[:1]):
        try:
            probabilities = _run_onnx(content, some, onnxruntime)
        except Exception as error:
            raise MocaError(f"onnxruntime cannot use this model: {first_line(error)}; nothing was written") from error
        far = float(np.abs(probabilities - classifier.predict_proba(some)).max())
        if not far <= _TOLERANCE:
            raise MocaError(
                f"onnxruntime gives other probabilities than this model, by up to {far:.1g}; nothing was written"
            )


def _run_onnx(content: bytes, images: Tensor, onnxruntime: Any) -> NDArray[np.float32]:
    """Probabilities that the ONNX file gives, on one core and without log output."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {_input(images): images.numpy()})
    return np.asarray(probabilities)


def _some_images(classifier: Classifier) -> Tensor:
    """Up to `_COMPARED` inputs from the memory, or random ones if it holds none."""
    memory, vectors = classifier.learning_.memory, classifier.takes_vectors
    stored = memory.all().get("image") if memory is not None and classifier.frozen_ is None else None
    if stored is not None and vectors:
        stored = stored.flatten(1)
    if stored is None or not len(stored):
        random = torch.Generator().manual_seed(0)
        if vectors:
            return torch.randn(_COMPARED, classifier.shape_[0], generator=random)
        return torch.randint(0, 256, (_COMPARED, *classifier.shape_), generator=random, dtype=torch.uint8)
    return stored[:: max(1, len(stored) // _COMPARED)][:_COMPARED]


def _input(samples: Tensor) -> str:
    return "vectors" if samples.is_floating_point() else "images"
