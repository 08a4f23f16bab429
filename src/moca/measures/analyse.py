"""The analyses of a run that has ended: those recorded while it trained, and those computed from its files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch.nn.modules.batchnorm import _BatchNorm

from moca.engine.folder import MODEL, RESULT, TASKS, RunFolder
from moca.engine.learning import Learning
from moca.engine.material import Material
from moca.engine.request import ASKED
from moca.engine.result import Result
from moca.engine.schedule import Schedule
from moca.errors import Interrupted, MocaError, nearest
from moca.generator import generator_of
from moca.measures import implicit_augmentation
from moca.measures.analysis import FILE, Analyses, Analysis, Axis, Plot, listed, read, sought, write
from moca.measures.confusion import forgetting_by_class
from moca.measures.final_model import OF_MODEL, OfModel, first_tasks
from moca.measures.record.recorder import KINDS
from moca.models.build import made_encoder
from moca.parts import ENCODERS
from moca.paths import from_here
from moca.settings import Choice, Run, validate
from moca.settings.choice import choice_of
from moca.settings.suggestions import refuse_unknown_keywords
from moca.streams import Stream

_RECORDED = {kind.leads_to: kind.about for kind in KINDS.values()}
ASKED_FOR = (implicit_augmentation.NAME,)
"""Analyses that take minutes, and are made only on request."""
COMPUTED = (*OF_MODEL, "forgetting_by_class")
"""Analyses that are computed from the files of a run."""
KNOWN = tuple(sorted([*_RECORDED, *ASKED_FOR, *COMPUTED]))
"""The names of all analyses."""

_MODEL, _FORGETTING = "the final model", "forgetting of each class"
_NOT_KEPT = "its weights were not kept; run again with record=weights"
_OF_BATCH_NORM = [name for name, kind in KINDS.items() if kind.of_batch_norm]
_ABSENT = {
    "perturbation_angle": "angle of the perturbation: the run has no perturbation",
    "classifier_angles": "classifier_angles: all tasks of the run have the same classes",
    **{KINDS[name].leads_to: f"{KINDS[name].about}: the encoder has no BatchNorm" for name in _OF_BATCH_NORM},
    "feature_plane": "feature_plane: it is of runs with two features, such as model=convnet:features=2",
}
"""Why a run has no analysis of this name, if nothing went wrong."""


@dataclass(frozen=True, repr=False)
class Analysed:
    """A run and its analyses: `analysed["confusion"].numbers`."""

    result: Result
    """The run."""
    analyses: Analyses
    """The available analyses by name."""
    reasons: Mapping[str, str]
    """What is missing, such as an analysis or the final model: why, and how to get it."""

    def __repr__(self) -> str:
        return f"Analysed run '{from_here(self.result.folder)}': {', '.join(self.analyses)}"

    def __getitem__(self, name: str) -> Analysis:
        """An analysis by its name."""
        if name not in self.analyses:
            raise MocaError(
                f"run '{from_here(self.result.folder)}' has no analysis '{name}'; it has {', '.join(self.analyses)}"
            )
        return self.analyses[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the available analyses."""
        return iter(self.analyses)

    def lacks(self, name: str) -> list[str]:
        """Why there is no analysis of this name, and how to get it; empty if there is one."""
        if name in self.analyses:
            return []
        of = (_RECORDED | {"forgetting_by_class": _FORGETTING}).get(name, _MODEL)
        why = [f"{what}: {self.reasons[what]}" for what in (of, name) if what in self.reasons]
        return why or [_ABSENT.get(name, f"{name}: '{from_here(self.result.folder)}' has none")]

    @property
    def missing(self) -> list[str]:
        """One line for each analysis that is missing, with how to get it."""
        return [f"{what}: {why}" for what, why in self.reasons.items()]

    @property
    def numbers(self) -> dict[str, float | None]:
        """All numbers by analysis and name, such as `confusion: accuracy on all test images (%)`."""
        return {f"{name}: {key}": value for name, a in self.analyses.items() for key, value in a.numbers.items()}


def analyse(
    run: str | os.PathLike[str] | Result,
    *,
    device: str = "auto",
    again: bool = False,
    also: Sequence[str] = (),
    classes: Sequence[str] = (),
    progress: bool = False,
    **own: Any,
) -> Analysed:
    """Make the paper's analyses of a run that has ended, and update analysis.json in its folder.

    Analyses of the final model need its weights (which `run` saves, and a comparison with `record="weights"`) and the
    images; others are recorded while training (`record="all"`). Earlier results are reused.

    Args:
        run: A result, or the run's folder.
        device: `"cpu"`, `"cuda"` or `"auto"`.
        again: Whether to recompute what was computed before.
        also: Analyses that take minutes and are made only on request: `["implicit_augmentation"]`, pictures whose
            features are the perturbed ones. They need a generator of the data set's images, which is trained if there
            is none yet.
        classes: The old classes of these pictures; by default three.
        progress: Whether to show a progress bar.
        **own: Parts that exist only in Python, if just the folder is given: `moca.analyse(folder, data=mine)`.
    """
    refuse_unknown_keywords(analyse, own)
    for name in also:
        if name not in ASKED_FOR:
            raise MocaError(f"also= names what is made only where it is asked for; {nearest(name, ASKED_FOR)}")
    folder = _folder_of(run)
    result, own = Result.load(folder.path), _at_hand(run) | own
    ended, before, looked_for = EndedRun(folder, result, device, own), read(folder), sought(folder)
    stale = _stale(folder)
    recorded = {name: analysis for name, analysis in before.items() if analysis.source == "recorded"}
    computed = {} if stale else {name: a for name, a in before.items() if a.source == "computed"}
    reasons = _unrecorded(result, recorded)
    last = "confusion" if ended.weights else "forgetting_by_class"
    if again or last not in computed or looked_for != set(COMPUTED):
        anew, why = _computed(ended)
        if "confusion" in anew:  # all was recomputed; drop the rest, which an older moca may have named differently
            computed = {name: computed[name] for name in ASKED_FOR if name in computed}
        computed |= anew  # keeps what cannot be recomputed because weights or images are gone
        reasons |= why
        looked_for = set(COMPUTED) if anew else looked_for
        if anew or stale:
            write(folder, recorded | computed, looked_for)
    if result.finished and not ended.weights and (again or "confusion" not in computed):
        reasons[_MODEL] = _NOT_KEPT
    if implicit_augmentation.NAME in also and (again or classes or implicit_augmentation.NAME not in computed):
        try:
            computed[implicit_augmentation.NAME] = _pictures(ended, classes, progress)
            write(folder, recorded | computed, looked_for)
        except Interrupted:
            raise
        except MocaError as error:
            if classes:  # a wrong class name is the user's mistake, not something that the run lacks
                raise
            reasons[implicit_augmentation.NAME] = str(error)
    return Analysed(result, read(folder), reasons)


def _folder_of(run: object) -> RunFolder:
    """The folder of a run or of a result; raises a `MocaError` for anything else, and for a run that still goes on."""
    if not isinstance(run, str | os.PathLike | Result):
        raise MocaError(
            f"an analysis takes one run, a result or its folder, not a {type(run).__name__}; of a comparison: "
            "[moca.analyse(run) for run in comparison.results]"
        )
    path = run.folder if isinstance(run, Result) else Path(run)
    if (path / ASKED).is_file():
        raise MocaError(
            f"'{path}' is a comparison, and an analysis takes one run: "
            f"[moca.analyse(run) for run in moca.Comparison.load({str(path)!r}).results]"
        )
    folder = RunFolder.open(path)
    if not (path / RESULT).is_file() and folder.held:
        raise MocaError(f"run '{path}' is still going on; wait for its end")
    return folder


def final_model(run: str | os.PathLike[str] | Result, *, device: str = "auto", **own: Any) -> OfModel:
    """Restore the network that a finished run tests, with its features of the images, for analyses of your own.

    Args:
        run: A result, or the run's folder; its weights must have been saved, as for `analyse`.
        device: `"cpu"`, `"cuda"` or `"auto"`.
        **own: Parts that exist only in Python, if just the folder is given.
    """
    folder = _folder_of(run)
    ended = EndedRun(folder, Result.load(folder.path), device, _at_hand(run) | own)
    return OfModel(ended.learning, ended.material[1])


def _at_hand(run: str | os.PathLike[str] | Result) -> dict[str, Any]:
    """The parts that exist only in Python and that a result has, as it does where the run was made."""
    if not isinstance(run, Result):
        return {}
    own = {name: getattr(run.settings, name) for name in run.settings.own_objects}
    return {name: part for name, part in own.items() if part.object is not None}


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended, restored from its files; what cannot be restored raises a `MocaError`."""

    folder: RunFolder
    result: Result
    device: str = "auto"
    own: Mapping[str, Any] = field(default_factory=dict)
    """Parts that exist only in Python, passed again."""

    @property
    def weights(self) -> bool:
        """Whether its weights were saved."""
        return (self.folder.path / MODEL).is_file()

    @cached_property
    def material(self) -> tuple[Run, Stream]:
        """Its settings and its stream."""
        settings = self.result.settings
        if absent := [name for name in settings.own_objects if name not in self.own]:
            again = ", ".join(f"{name}=..." for name in absent)
            raise MocaError(f"parts of the run exist only in Python; pass them again: moca.analyse(run, {again})")
        made = validate(Run, dict(settings) | {"device": self.device} | dict(self.own))
        return Material()(made.with_options_of(settings.model_dump(mode="json", by_alias=True)))

    @cached_property
    def learning(self) -> Learning:
        """Model, learner and memory in their final state."""
        if not self.result.finished:
            raise MocaError(f"there is no final model: the run has {self.result.status}")
        if not self.weights:
            raise MocaError(_NOT_KEPT)
        settings, stream = self.material
        about, state = self.folder.load_model()
        if list(about["classes"]) != list(stream.names[: state["classes"]]):
            raise MocaError(f"the classes of '{settings.data_name}' are no longer those that the run learnt")
        if self.result.environment.get("data", stream.dataset.fingerprint) != stream.dataset.fingerprint:
            raise MocaError(f"the images of '{settings.data_name}' are no longer those that the run learnt")
        if settings.model is not None and settings.model.name == "pretrained":  # whose weights may be gone
            settings = settings.model_copy(update={"model": choice_of(ENCODERS, about["settings"]["model"])})
        offered = Schedule(settings, stream).offered
        learning = Learning(settings, stream.protocol, stream.shape, state["classes"], offered)
        learning.load_state_dict(state)
        return learning


def _pictures(ended: EndedRun, classes: Sequence[str], progress: bool) -> Analysis:
    learning, (settings, stream) = ended.learning, ended.material
    pictures = implicit_augmentation.ImplicitAugmentation(learning, stream, classes)
    pair = generator_of(stream.dataset, data_dir=settings.data_dir, device=ended.device, progress=progress)
    return pictures.pictures(pair, progress)


def _stale(folder: RunFolder) -> bool:
    """Whether the weights are newer than the analyses."""
    weights, written = folder.path / MODEL, folder.path / FILE
    return weights.is_file() and written.is_file() and written.stat().st_mtime < weights.stat().st_mtime


def _unrecorded(result: Result, found: Analyses) -> dict[str, str]:
    """What must be recorded while training, and was not: why."""
    reasons, pointless = dict[str, str](), ["perturbation"] * (result.settings.perturb.name == "none")
    if _without_batch_norm(result.settings.model):
        pointless += _OF_BATCH_NORM
    lost = "there was none to be found" if result.finished else "the run did not come so far"
    if result.finished and not found and not {"angles", "gradients"}.isdisjoint(result.settings.record):
        lost = f"{FILE} no longer has it; run again"
    for name, kind in KINDS.items():
        if kind.leads_to in found or name in pointless:
            continue
        if name in result.settings.record:
            reasons[kind.about] = f"was recorded, but {lost}"
        else:
            reasons[kind.about] = f"was not recorded; run again with record={name}"
    return reasons


def _without_batch_norm(encoder: Choice | None) -> bool:
    """Whether an encoder is known to have no BatchNorm; false for user-defined ones, of which this is unknown."""
    if encoder is None or encoder.own or encoder.name not in ENCODERS.built_in:
        return False
    try:
        body = made_encoder(encoder, (3, 32, 32)).body
    except MocaError:  # its pretrained weights are gone
        return False
    return not any(isinstance(layer, _BatchNorm) for layer in body.modules())


def _computed(ended: EndedRun) -> tuple[Analyses, dict[str, str]]:
    """The analyses computed from the files of a run, and what is missing: why."""
    if not ended.result.finished:
        return {}, {_MODEL: f"there is none, the run has {ended.result.status}"}
    by_class = _by_class(ended.folder)
    older = {_FORGETTING: f"{TASKS} does not have it; it is gone, or of an older moca"}
    if not ended.weights and not by_class:
        return {}, older
    try:
        settings, stream = ended.material
        model = OfModel(ended.learning, stream) if ended.weights else None
    except MocaError as error:
        return {}, {_MODEL if ended.weights else _FORGETTING: str(error)}
    found, why = model.analyses() if model else {}, dict[str, str]()
    if model and "calibration" not in found:
        why["calibration"] = f"'{settings.learner.name}' predicts by other scores than logits"
    if model and "lead_of_new_classes" not in found:
        why["lead_of_new_classes"] = "there is none: one task has all classes, or the learner predicts by distances"
    came = first_tasks(stream)
    if len(by_class) > 2 and len(came) == len(by_class[-1]):
        found["forgetting_by_class"] = _forgetting(by_class[1:], came, stream.names)
    elif by_class:
        why[_FORGETTING] = "there is one task only, or not every class came"
    else:
        why |= older
    return found, why


def _by_class(folder: RunFolder) -> list[list[float | None]]:
    """The accuracy of each class before training and after each task; empty for runs of an older version."""
    try:
        lines = [json.loads(line) for line in (folder.path / TASKS).read_text().splitlines()]
    except (OSError, ValueError):
        return []
    return [line["by_class"] for line in lines if line.get("by_class")]


def _forgetting(stages: list[list[float | None]], came: dict[int, int], names: Sequence[str]) -> Analysis:
    fallen = forgetting_by_class(stages, [came[c] for c in range(len(came))])
    lost = [100 * value for value in fallen if value is not None]
    old = [c for c, value in enumerate(fallen) if value is not None]
    x, y = Axis("Class", [names[c] for c in old]), Axis("Accuracy lost")
    return Analysis(
        "Forgetting of each class",
        "How far the accuracy on a class has fallen from the best that it had after an earlier task.",
        {
            "mean over old classes (%)": sum(lost) / len(lost) if lost else None,
            "of the class that lost most (%)": max(lost, default=None),
        },
        {"forgetting_by_class": Plot("bars", x, y, {"test": listed(fallen[c] for c in old)})},
    )
