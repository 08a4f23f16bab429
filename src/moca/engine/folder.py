"""The folder of a run: plain files that any tool can read.

settings.json      the complete settings
steps.jsonl        losses and learning rate of every step
tasks.jsonl        accuracy on every task, before training and after each task
result.json        the accuracy matrix and the metrics computed from it
model.safetensors  the final weights, if kept, with settings, classes and how images are prepared
learning.pt        beside the weights: what else is needed to continue learning (memory, learner, optimiser)
analysis.json      what was recorded during training, or found by `moca analyse`; large arrays in analysis.npz
checkpoint.pt      only while the run is unfinished: everything needed to resume
tracking.json      only if it is tracked: the trackers, and the run's id in each
traceback.txt      only if user code failed: the traceback
lock               held by the process that writes; removed when it ends, unless it was killed

Torch is imported only where tensors are read or written, so that runs can be listed without it.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moca import __version__, user_tracebacks
from moca.atomic import writing
from moca.engine.request import ASKED, above
from moca.errors import Held, MocaError, Unreadable, out_of_memory
from moca.locking import is_held, lock
from moca.parts import KINDS, Kind
from moca.settings import Run, validate
from moca.settings.described import with_described_parts
from moca.settings.migration import renewed

if TYPE_CHECKING:
    import torch

    from moca.data.protocol import Protocol
    from moca.models.frozen import Frozen

SETTINGS, STEPS, TASKS, RESULT = "settings.json", "steps.jsonl", "tasks.jsonl", "result.json"
MODEL, LEARNING, CHECKPOINT = "model.safetensors", "learning.pt", "checkpoint.pt"
TRACEBACK, LOCK = "traceback.txt", "lock"
MARKS = (SETTINGS, STEPS, TASKS)
"""A folder with any of these files is the folder of a run."""
_PART = ".part"
"""Suffix of a file that is not complete yet."""


def new_folder(path: Path) -> Path:
    """Create a folder of that name or, if it exists, name-2, name-3, ..."""
    folder, number = path, 1
    while True:
        with _writing(folder), suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        number += 1
        folder = path.with_name(f"{path.name}-{number}")


def described(
    run: Run, classes: Sequence[int | str], protocol: Protocol, shape: Sequence[int], frozen: Frozen | None = None
) -> dict[str, Any]:
    """The metadata saved with a classifier: settings, classes, and how images are prepared for it; with a frozen
    encoder, also how images are prepared for that."""
    run = run if frozen is None else run.model_copy(update={"frozen": frozen.choice})
    metadata = {"settings": run.model_dump(mode="json", by_alias=True), "classes": list(classes)}
    metadata |= _prepared(protocol, shape)
    if frozen is not None:
        metadata["frozen"] = _prepared(frozen.protocol, frozen.shape) | {"weights": frozen.digest}
    return metadata


def _prepared(protocol: Protocol, shape: Sequence[int]) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(protocol).items() if name != "recipe"}
    return {"protocol": fields, "shape": list(shape)}


class RunFolder:
    """The folder of a run. Files are replaced atomically, so that a crash never leaves a partial one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held = ExitStack()

    def claim(self) -> None:
        """Lock the folder against other processes, until `release` or the end of this process for any reason."""
        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            free = self._held.enter_context(lock(self.path / LOCK, wait=False))
        if not free:
            self._held.close()
            raise Held(f"folder '{self.path}' is being written by another process; wait for it, or stop it")
        self._held.callback(_remove, self.path / LOCK)

    @property
    def held(self) -> bool:
        """Whether a process holds the lock."""
        return is_held(self.path / LOCK)

    def release(self) -> None:
        """Release the lock."""
        self._held.close()

    @classmethod
    def create(cls, path: Path, settings: Run) -> RunFolder:
        """Create and lock a fresh folder; one that holds other files is refused, since it may be another run."""
        folder = cls(path)
        folder.claim()
        try:
            _refuse_without_settings(path)
            if any(entry.name not in (LOCK, TRACEBACK, SETTINGS + _PART) for entry in path.iterdir()):
                raise MocaError(f"run folder '{path}' is already used; choose another with out=, or remove it")
            folder.write_json(SETTINGS, settings.model_dump(mode="json", by_alias=True))
        except MocaError:
            folder.release()
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an existing run."""
        _refuse_without_settings(path)
        if not (path / SETTINGS).is_file():
            missing = f"it has no {SETTINGS}" if path.exists() else "there is none of that name"
            raise MocaError(f"'{path}' is not a run folder: {missing}; {_how_to_resume(path)}")
        return cls(path)

    def settings(self, loaded: bool = True) -> Run:
        """The settings of the run. If they need not be `loaded`, as for a report, the user's own parts may be missing
        here: they are then described by their names and options."""
        saved = renewed(self.read_json(SETTINGS))
        try:
            return validate(Run, saved)
        except MocaError as error:
            why = str(error)
        try:
            lacking = validate(Run, with_described_parts(saved))
        except MocaError:
            raise Unreadable(
                f"the settings of run '{self.path}' cannot be read by moca {__version__}: {why}; remove the folder "
                "and do the run again, or use the moca that wrote it"
            ) from None
        if not loaded:
            return lacking
        for kind in KINDS.values():
            if name := _unregistered(saved.get(kind.setting), kind):
                raise Unreadable(
                    f"run '{self.path}' has the {kind.name} '{name}', which is not known here; register it in Python "
                    "(moca.register) and use moca.analyse or moca.resume there, or give new runs its dotted path "
                    f"({kind.setting}=mymodule.MyClass), which commands can import"
                )
        raise Unreadable(f"run '{self.path}' cannot be used here: {why}")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the folder."""
        remedy = "remove it, and the run can be done again" if name == RESULT else "bring it back"
        try:
            content = json.loads((self.path / name).read_text())
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no JSON"
            raise Unreadable(f"cannot read {self.path / name}: {why}; {remedy}") from None
        if not isinstance(content, dict):
            raise Unreadable(f"{self.path / name} is damaged: it holds no settings or results; {remedy}")
        return content

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file atomically."""
        self.write_bytes(name, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())

    def append(self, name: str, records: list[dict[str, Any]]) -> None:
        """Add lines to a JSON-lines file."""
        with _writing(self.path), (self.path / name).open("a") as file:
            file.writelines(json.dumps(record, allow_nan=False) + "\n" for record in records)

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Save a state to resume from, and the lengths of the JSON-lines files at this point."""
        from moca.state import torch_bytes

        lengths = {n: (self.path / n).stat().st_size for n in (STEPS, TASKS) if (self.path / n).exists()}
        self.write_bytes(CHECKPOINT, torch_bytes({"state": state, "lengths": lengths}))

    def load_checkpoint(self, device: torch.device) -> dict[str, Any] | None:
        """The last saved state, if any; lines written after it are removed, since those steps will be done again."""
        import torch

        checkpoint: dict[str, Any] = {"state": None, "lengths": {}}
        if (self.path / CHECKPOINT).exists():
            try:
                read = torch.load(self.path / CHECKPOINT, weights_only=True, map_location=device)
                checkpoint = {name: read[name] for name in checkpoint}
            except Exception as error:
                if out_of_memory(error):
                    raise
                if isinstance(error, (OSError, MemoryError)) and getattr(error, "errno", None) != errno.EINVAL:
                    raise MocaError(f"cannot read {self.path / CHECKPOINT}: {error}") from None
                # A damaged file can raise almost anything, one that is cut off an OSError with EINVAL.
                raise MocaError(
                    f"{self.path / CHECKPOINT} is damaged; remove it, and the run begins anew when resumed"
                ) from None
        for name in (STEPS, TASKS):
            self._shorten(self.path / name, checkpoint["lengths"].get(name, 0))
        state: dict[str, Any] | None = checkpoint["state"]
        return state

    def _shorten(self, path: Path, length: int) -> None:
        there = path.stat().st_size if path.exists() else 0
        if there < length:
            raise MocaError(
                f"{path} has lost lines since the run stopped; bring them back, or remove {CHECKPOINT} to begin anew"
            )
        if there > length:
            with _writing(self.path):
                os.truncate(path, length)

    def save_model(self, state: dict[str, Any], about: dict[str, Any]) -> None:
        """Save the weights with metadata, and the rest of the learning's state in a second file."""
        import safetensors.torch

        from moca.state import torch_bytes

        self.write_bytes(LEARNING, torch_bytes({name: part for name, part in state.items() if name != "model"}))
        tensors = {name: tensor.contiguous() for name, tensor in state["model"].items()}
        self.write_bytes(MODEL, safetensors.torch.save(tensors, {"moca": json.dumps(about)}))

    def load_model(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The metadata and the state that `save_model` wrote."""
        import safetensors
        import torch

        try:
            with safetensors.safe_open(self.path / MODEL, "pt") as file:
                about = json.loads(file.metadata()["moca"])
                model = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dictionary
            state = torch.load(self.path / LEARNING, weights_only=True, map_location="cpu")
            about["protocol"]  # models of older versions have none
        except Exception:
            raise MocaError(
                f"run '{self.path}' cannot be used as a model: {MODEL} or {LEARNING} is missing, damaged, or of an "
                "older moca; run it again"
            ) from None
        return about, state | {"model": model}

    def keep_failure(self, error: Exception) -> str:
        """Save the traceback of a failed run with user code; returns the failure as one line."""
        line = user_tracebacks.in_a_line(error)
        try:
            with _writing(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
            self.write_bytes(TRACEBACK, "".join(traceback.format_exception(error)).encode(errors="replace"))
        except MocaError as refused:
            return f"{line}; {refused}"
        return f"{line}; the traceback is in {self.path / TRACEBACK}"

    def finish(self) -> None:
        """Remove checkpoint and traceback of a run that has ended, and release the lock."""
        with _writing(self.path):
            for name in (CHECKPOINT, TRACEBACK):
                (self.path / name).unlink(missing_ok=True)
        self.release()

    def write_bytes(self, name: str, content: bytes | memoryview) -> None:
        """Write a file atomically; a partial file left by a killed process is overwritten."""
        temporary = self.path / (name + _PART)
        with _writing(self.path):
            try:
                temporary.write_bytes(content)
                temporary.replace(self.path / name)
            except OSError:
                _remove(temporary)
                raise


def _refuse_without_settings(path: Path) -> None:
    """Raise a `MocaError` for the folder of a run that has lost its settings."""
    if not (path / SETTINGS).is_file() and any((path / name).is_file() for name in MARKS):
        raise Unreadable(
            f"run '{path}' has lost its {SETTINGS}; bring it back, or remove the folder and do the run again"
        )


def _unregistered(part: Any, kind: Kind) -> str:
    """The name of a saved part that must have been registered in another process; else empty."""
    name = "" if not isinstance(part, dict) or part.get("own") else str(part.get("name", ""))
    return name if "." not in name and not kind.knows(name) else ""


def _how_to_resume(path: Path) -> str:
    """What to do instead of resuming a folder that is not a run's but may contain runs."""
    one = next(path.glob(f"*/{SETTINGS}"), None)
    if one is None and any(path.glob(f"*/*/{SETTINGS}")):
        return f"moca runs {shlex.quote(str(path))} lists the comparisons in it, which can be resumed one by one"
    if one and (comparison := above(one.parent)):
        return f"moca.resume_comparison({str(comparison)!r}) resumes the comparison"
    if one:
        here = shlex.quote(str(path))
        alone = f"moca runs {here} lists the runs in it, each with the command that resumes it"
        return f"{alone}; to resume a comparison of Python objects, repeat its call"
    return "moca runs lists the runs in runs/, moca runs FOLDER those in another folder"


def _writing(path: Path) -> AbstractContextManager[None]:
    """Turns the `OSError` of a failed write into a `MocaError` that says what helps with this folder."""
    remedy = "fix that, or choose another folder with out="
    if os.path.exists(path / RESULT):  # noqa: PTH110 - does not raise where nothing can be read
        remedy = "fix that, or copy the run to another place and use the copy"
    elif os.path.exists(path / SETTINGS) or os.path.exists(path.parent / ASKED):  # noqa: PTH110
        remedy = "fix that and resume (moca resume, or the same comparison again)"
    return writing(f"folder '{path}'", remedy)


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows cannot remove an open file
        path.unlink()
