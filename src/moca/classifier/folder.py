"""The folder of a model: every lesson is a version, and none is lost.

model.json               which version is in use
versions/3/about.json    what the third lesson brought: settings, classes, when, accuracies
versions/3/state.pt      weights, memory and all that is needed to go on learning
frozen-1f2e3d4c.pt       the weights of a frozen encoder, which versions share; named by what they are
lock                     held while somebody teaches
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from moca import __version__
from moca.atomic import whole
from moca.data.arrays import Label
from moca.engine.folder import MODEL, SETTINGS, RunFolder
from moca.errors import MocaError, out_of_memory
from moca.locking import lock
from moca.state import torch_bytes
from moca.user_tracebacks import noted

if TYPE_CHECKING:
    from moca.classifier.classifier import Classifier

Kind = TypeVar("Kind", bound="Classifier")
_FORMAT = 1
_MODEL, _ABOUT, _STATE, _VERSIONS, _LOCK = "model.json", "about.json", "state.pt", "versions", "lock"


class Damaged(MocaError):
    """A file of a model that does not hold what it should."""


class ModelFolder:
    """Versions of a classifier, of which one is in use."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()

    def exists(self) -> bool:
        """Whether there is a model, be it one that no longer says which version is in use."""
        return (self.path / _MODEL).is_file() or bool(self._numbers())

    def is_run(self) -> bool:
        """Whether there is a finished run instead, whose weights were kept."""
        return not self.exists() and (self.path / MODEL).is_file()

    @property
    def next(self) -> int:
        """The version that comes next."""
        return 1 + max(self._numbers(), default=0)

    @property
    def current(self) -> int:
        """The version in use."""
        told = self._read(path := self.path / _MODEL)
        self._check_format(path, told)
        if not isinstance(told.get("current"), int):
            raise self._damaged(path, "does not say which version is in use")
        return int(told["current"])

    @property
    def mark(self) -> tuple[int, int] | None:
        """Another one whenever somebody has put a version to use; cheap enough to be asked for all the time."""
        try:
            about = (self.path / _MODEL).stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns

    @property
    def versions(self) -> list[dict[str, Any]]:
        """What each version says of itself, the oldest first."""
        self.check()
        return [self.about(number) for number in self._numbers()]

    def _numbers(self) -> list[int]:
        return sorted(int(place.name) for place in (self.path / _VERSIONS).glob("*") if place.name.isdigit())

    def about(self, version: int | None = None) -> dict[str, Any]:
        """What a version says of itself."""
        return self._read(self._place(version) / _ABOUT)

    def taught_in(self) -> dict[Label, int]:
        """The version in which each class came to the one in use, by way of those that it comes from: one that was
        forgotten in between came again."""
        about, known = self.about(), self._numbers()
        came = dict.fromkeys(about["classes"], about["version"])
        while about["parent"] in known:
            child, about = about["version"], self.about(about["parent"])
            came |= {name: about["version"] for name in about["classes"] if came.get(name) == child}
        return came

    @contextmanager
    def teaching(self) -> Iterator[None]:
        """Inside, nobody else changes the model. A folder that stays empty goes again."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MocaError(f"model '{self.path}' cannot be made: {error.strerror}; choose another place") from None
        try:
            with ExitStack() as held:
                try:
                    free = held.enter_context(lock(self.path / _LOCK, wait=False))
                except OSError as error:
                    raise MocaError(
                        f"model '{self.path}' cannot be changed: {error.strerror}; check the permissions of its folder"
                    ) from None
                if not free:
                    raise MocaError(f"model '{self.path}' is being taught by another process; wait for it, or stop it")
                held.callback((self.path / _LOCK).unlink, missing_ok=True)
                yield
        finally:
            with suppress(OSError):
                self.path.rmdir()

    def add(
        self,
        classifier: Classifier,
        lesson: dict[str, Any] | None = None,
        use: bool = True,
    ) -> Path:
        """A new version, whole or not at all; put to use unless told otherwise."""
        self.check_free()
        about = {
            "version": self.next,
            "parent": self.current if self.exists() else None,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "lesson": lesson or {},
        }
        return self._write(about, classifier, use)

    def rewrite(self, version: int, classifier: Classifier) -> None:
        """Put another classifier in the place of a version."""
        facts = {name: self.about(version)[name] for name in ("version", "parent", "when", "lesson")}
        self._write(facts, classifier, use=False)

    def remove(self, version: int) -> None:
        """Take a version away, which must not be in use."""
        try:
            shutil.rmtree(self._place(version))
        except OSError as error:
            raise MocaError(f"version {version} of model '{self.path}' cannot be removed: {error.strerror}") from None

    def _write(self, facts: dict[str, Any], classifier: Classifier, use: bool) -> Path:
        number = facts["version"]
        place = self.path / _VERSIONS / str(number)
        part, before = place.with_name(f"{number}.part"), place.with_name(f"{number}.before")
        about = {"format": _FORMAT, "moca": __version__} | facts | classifier.about()
        try:
            for rest in (part, before):
                shutil.rmtree(rest, ignore_errors=True)
            part.mkdir(parents=True)
            (part / _ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            state = {"learning": classifier.learning_.state(), "extra": classifier.kept_.state()}
            (part / _STATE).write_bytes(torch_bytes(state))
            if classifier.frozen_ is not None and not (shared := self._frozen(classifier.frozen_.digest)).exists():
                (part / shared.name).write_bytes(torch_bytes(classifier.frozen_.state()))
                (part / shared.name).replace(shared)
            if place.exists():
                place.replace(before)
            part.replace(place)
            shutil.rmtree(before, ignore_errors=True)
            if use:
                self.use(number)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            left = "it is what it was" if self.exists() else "none was made"
            raise MocaError(f"model '{self.path}' cannot be written: {error.strerror}; {left}") from None
        finally:
            with suppress(OSError):  # of a model that was not made nothing stays
                place.parent.rmdir()
        return place

    def use(self, version: int) -> None:
        """Put a version to use."""
        if version not in (known := self._numbers()):
            raise MocaError(f"model '{self.path}' has no version {version}; it has {', '.join(map(str, known))}")
        with suppress(Damaged):  # it is written anew; one that another moca wrote is not
            _ = self.current if self.exists() else None
        with whole(self.path / _MODEL) as part:
            part.write_text(json.dumps({"format": _FORMAT, "moca": __version__, "current": version}) + "\n")

    def rollback(self, to: int | None = None) -> int:
        """Go back to the version before the one in use, or to another."""
        target = self._before() if to is None else to
        if target is None:
            self._place(None)  # of a model without versions nothing is the first
            raise MocaError(f"version {self.current} of model '{self.path}' is its first; there is nothing before it")
        if target in self._numbers():
            self.contents(target)  # one that is damaged is not put in the place of one that works
        self.use(target)
        return int(target)

    def _before(self) -> int | None:
        """What the version in use came from; if it can no longer say so, the last of those with a smaller number."""
        try:
            parent: int | None = self.about()["parent"]
        except (MocaError, KeyError):
            return max((number for number in self._numbers() if number < self.current), default=None)
        return parent

    def load(self, kind: type[Kind], version: int | None = None, device: str = "auto", **own: Any) -> Kind:
        """The classifier of a version, by default the one in use; or of a finished run. What was an object of the
        user's own is handed in again."""
        about, state = self.contents(version)
        handed_in = any(part is not None for part in own.values())
        try:
            return kind.revived(about, state, device=device, **own)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            if self.is_run() or handed_in or out_of_memory(error) or noted(error):
                raise
            raise self._damaged(self._place(version) / _STATE, "does not fit what about.json says of it") from None

    def contents(self, version: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the classifier of a version, or a finished run, says of itself, and its state."""
        if self.is_run():
            return RunFolder(self.path).load_model()
        about = self.about(version)
        self._check_format(self._place(version) / _ABOUT, about)
        state, frozen = self._state(version), about.get("frozen")
        beside = {"kept": state.get("extra", {})}
        beside |= {"frozen": self._loaded(self._frozen(frozen["weights"]))} if frozen else {}
        return about, state["learning"] | beside

    def _frozen(self, digest: str) -> Path:
        return self.path / f"frozen-{digest}.pt"

    def check(self) -> None:
        """That there is a model."""
        if not self.exists():
            what, hint = "is no model", "give the folder of one; moca learn FOLDER --model NAME makes one"
            if self.is_run():
                hint = f"it is a finished run, and becomes one with: moca learn FOLDER --model {self.path}"
            elif (self.path / SETTINGS).is_file():
                hint = "the run has not ended, or its weights were not kept"
            elif not self.path.exists():
                what, hint = "is not there", f"moca learn FOLDER --model {self.path} makes a model of that name"
            raise MocaError(f"'{self.path}' {what}; {hint}")

    def check_free(self) -> None:
        """That a model can be here: there is one, or a finished run, or nothing yet."""
        strange = not self.exists() and not self.is_run() and self.path.is_dir()
        left = (_LOCK, _VERSIONS)  # all that a first lesson leaves which is killed
        if strange and any(entry.name not in left for entry in self.path.iterdir()):
            raise MocaError(f"'{self.path}' is not empty, and no model; choose another name")

    def _place(self, version: int | None) -> Path:
        self.check()
        number = self.current if version is None else version
        place = self.path / _VERSIONS / str(number)
        if not place.is_dir():
            if not (known := self._numbers()):
                raise Damaged(
                    f"model '{self.path}' is damaged: it has no version any more; bring the folder {_VERSIONS} back, "
                    "or remove the model and teach it anew"
                )
            raise MocaError(
                f"model '{self.path}' has no version {number}; it has {', '.join(map(str, known))}; use the last of "
                f"these with: moca model rollback {self.path} --to {known[-1]}"
            )
        return place

    def _read(self, path: Path) -> dict[str, Any]:
        self.check()
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise self._damaged(path, f"cannot be read ({why})") from None
        if not isinstance(content, dict):
            raise self._damaged(path, "does not say what it should")
        return content

    def _check_format(self, path: Path, told: dict[str, Any]) -> None:
        """That this moca knows how the file is written."""
        if "format" not in told:
            raise self._damaged(path, "does not say what it should")
        if told["format"] != _FORMAT:
            wrote = f"moca {told['moca']}" if "moca" in told else "the moca"
            raise MocaError(
                f"model '{self.path}' cannot be used: {path.relative_to(self.path)} has format {told['format']!r}, and "
                f"moca {__version__} reads {_FORMAT}; use {wrote} that wrote it, or a newer one"
            )

    def _state(self, version: int | None) -> dict[str, Any]:
        state = self._loaded(path := self._place(version) / _STATE)
        if "learning" not in state:
            raise self._damaged(path, "does not hold what it should")
        return state

    def _loaded(self, path: Path) -> dict[str, Any]:
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        except Exception:
            raise self._damaged(path, "cannot be read") from None
        return state

    def _damaged(self, path: Path, why: str) -> Damaged:
        """What is wrong with a file, and what to do about it."""
        remedy = "bring it back"
        if path.name in (_ABOUT, _STATE):
            remedy = f"remove {path.parent}"
            if path.parent.name == str(self.current):
                remedy = f"go back with: moca model rollback {self.path}, and then {remedy}"
        elif path.name == _MODEL and (known := self._numbers()):
            remedy = (
                f"moca model rollback {self.path} --to {known[-1]} (of {', '.join(map(str, known))}) writes it anew"
            )
        return Damaged(f"model '{self.path}' is damaged: {path.relative_to(self.path)} {why}; {remedy}")
