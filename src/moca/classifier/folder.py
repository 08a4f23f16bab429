"""The folder of a model: every lesson saves a new version, and earlier ones stay until they are pruned.

model.json               which version is in use
versions/3/about.json    settings, classes, time and accuracies of version 3
versions/3/state.pt      weights, memory and everything else needed to continue learning
frozen-1f2e3d4c.pt       the weights of a frozen encoder, shared by versions; named by their digest
lock                     held while a lesson runs
"""

from __future__ import annotations

import errno
import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from moca import __version__
from moca.atomic import whole
from moca.classifier.record import Lesson
from moca.data.arrays import Label
from moca.engine.folder import MODEL, SETTINGS, RunFolder
from moca.errors import MocaError, out_of_memory
from moca.locking import lock
from moca.memory.memory import packed
from moca.state import torch_bytes
from moca.user_tracebacks import noted

if TYPE_CHECKING:
    import os

    from moca.classifier.classifier import Classifier

Kind = TypeVar("Kind", bound="Classifier")
_FORMAT = 1
_MODEL, _ABOUT, _STATE, _VERSIONS, _LOCK = "model.json", "about.json", "state.pt", "versions", "lock"
_FROZEN = f"frozen-{16 * '[0-9a-f]'}.pt"
"""Pattern of the files with weights of a frozen encoder."""
_NEEDED = {"version", "parent", "when", "lesson", "classes"}
"""What every about.json has."""
_BEFORE = ".before"
"""Ends the name of a version's folder while the version is being replaced."""
_GONE = ".gone"
"""Ends it while the version is being deleted."""


class Damaged(MocaError):
    """Raised for a file of a model that cannot be read or does not have the expected content."""


class ModelFolder:
    """The saved versions of a classifier, one of which is in use."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()

    @property
    def _typed(self) -> str:
        """The path as it is typed in a command."""
        return shlex.quote(str(self.path))

    def exists(self) -> bool:
        """Whether there is a model, even one whose model.json is missing."""
        return (self.path / _MODEL).is_file() or bool(self.numbers)

    def is_run(self) -> bool:
        """Whether the folder is a finished run with saved weights instead."""
        return not self.exists() and (self.path / MODEL).is_file()

    @property
    def next(self) -> int:
        """The number of the next version."""
        return 1 + max(self.numbers, default=0)

    @property
    def current(self) -> int:
        """The number of the version in use."""
        content = self._read(path := self.path / _MODEL)
        self._check_format(path, content)
        if not isinstance(content.get("current"), int):
            raise self._damaged(path, "does not say which version is in use")
        return int(content["current"])

    @property
    def mark(self) -> tuple[int, int] | None:
        """A value that changes whenever a version is put into use; cheap enough to poll."""
        try:
            about = (self.path / _MODEL).stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns

    @property
    def versions(self) -> list[dict[str, Any]]:
        """The about.json of each version, oldest first."""
        self.check()
        return [self.about(number) for number in self.numbers]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the versions, oldest first."""
        return sorted(int(place.name) for place in (self.path / _VERSIONS).glob("*") if place.name.isdigit())

    def about(self, version: int | None = None) -> dict[str, Any]:
        """The about.json of a version, by default of the one in use."""
        content = self._read(path := self._version_folder(version) / _ABOUT)
        self._check_format(path, content)
        if _NEEDED - content.keys():
            raise self._damaged(path, "does not have the expected content")
        return content

    def readable(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The about.json of each version that can be read, oldest first, and a line for each of the others."""
        abouts, damaged = list[dict[str, Any]](), list[str]()
        for number in self.numbers:
            try:
                abouts.append(self.about(number))
            except MocaError as error:
                damaged.append(str(error))
        return abouts, damaged

    def created_with(self) -> dict[str, str]:
        """The options that the model was created with, as text; empty if the version in use does not record them."""
        return dict(self.about().get("options", {}))

    def taught_in(self, version: int | None = None) -> dict[Label, int]:
        """For each class of a version, by default the one in use, the version that last brought it. Classes whose
        version was deleted or cannot be read are left out."""
        last, came, names = self.about(version), dict[Label, int](), dict[Label, Label]()
        known = {about["version"]: about for about in self.readable()[0]}
        about: dict[str, Any] | None = last
        while about is not None:
            lesson = Lesson.of(about)
            if lesson.renamed:
                old, new = lesson.renamed
                names[old] = names.pop(new, new)
            came = {names.get(name, name): about["version"] for name in lesson.new_classes} | came  # the nearest wins
            about = known.get(about["parent"])
        return {name: came[name] for name in last["classes"] if name in came}

    def rejected(self) -> Iterator[tuple[Lesson, dict[str, Any]]]:
        """Of each version that forgot too much and continues the one in use, or that with former names of classes: its
        lesson, and what it keeps, with the names of today."""
        abouts = {about["version"]: about for about in self.readable()[0]}
        number, names, today = self.current_if_known(), dict[Label, Label](), dict[int | None, dict[Label, Label]]()
        today[number] = names
        while number in abouts and (renamed := Lesson.of(abouts[number]).renamed):
            number, (old, new), names = abouts[number]["parent"], renamed, names.copy()
            names[old] = names.pop(new, new)
            today[number] = names
        for about in abouts.values():
            lesson = Lesson.of(about)
            if about["parent"] in today and not lesson.used:
                with suppress(MocaError):  # damaged
                    kept, names = self.contents(about["version"])[1]["kept"], today[about["parent"]]
                    yield lesson, kept | {"seen_of": [names.get(name, name) for name in kept["seen_of"]]}

    def size(self, version: int) -> int:
        """How many bytes a version takes."""
        return sum(file.stat().st_size for file in self._version_folder(version).iterdir())

    @contextmanager
    def teaching(self) -> Iterator[None]:
        """Hold the model's lock, so that no other process changes it. A folder that stays empty is removed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MocaError(f"model '{self.path}' cannot be made: {error.strerror}; choose another place") from None
        try:
            with ExitStack() as stack:
                try:
                    free = stack.enter_context(lock(self.path / _LOCK, wait=False))
                except OSError as error:
                    raise MocaError(
                        f"model '{self.path}' cannot be changed: {error.strerror}; check the permissions of its folder"
                    ) from None
                if not free:
                    raise MocaError(f"model '{self.path}' is being taught by another process; wait for it, or stop it")
                stack.callback((self.path / _LOCK).unlink, missing_ok=True)
                self._settle()
                yield
        finally:
            with suppress(OSError):
                self.path.rmdir()

    def add(
        self,
        classifier: Classifier,
        lesson: Lesson | None = None,
        replace: bool = False,
        options: dict[str, str] | None = None,
    ) -> Path:
        """Save a new version atomically, and put it into use unless its lesson says that it is not used. The model in
        the folder must be the one that the classifier continues, unless `replace`. `options` are those that a new model
        is created with; every later version has a copy, since the first may be pruned."""
        self.check_free()
        if self.exists() and not replace:
            self._check_continued(classifier)
        number, when = self.next, datetime.now(UTC).isoformat(timespec="seconds")
        before = self.about()["classes"] if self.exists() and not replace else []
        news = [name for name in classifier.classes_.tolist() if name not in before]
        if lesson is None:
            correct = classifier.kept_.by_class(classifier.kept_.judged(classifier))
            lesson = Lesson(version=number, in_use=number, new_classes=news, correct=correct)
        about = {
            "version": number,
            "parent": self.current if self.exists() else None,
            "when": when,
            "options": self.created_with() if self.exists() and not replace else options or {},
            "lesson": lesson.record(),
        }
        place = self._write(about, classifier, lesson.used)
        classifier.continues_, classifier.version_ = (self.path.resolve(), number, when), number
        return place

    def _check_continued(self, classifier: Classifier) -> None:
        """Raise if the version in use is not the one that the classifier was loaded from or saved as."""
        place, version, when = classifier.continues_ or (None, 0, "")
        there = version in self.numbers
        if place != self.path.resolve() or not there or self.about(version)["when"] != when:
            raise MocaError(
                f"'{self.path}' holds another model; save to another folder, or with replace=True as its next version"
            )
        if version != self.current:
            raise MocaError(
                f"model '{self.path}' has changed: version {self.current} is in use, and this classifier continues "
                f"version {version}; load it again, save to another folder, or use replace=True"
            )

    def rewrite(self, version: int, classifier: Classifier, lesson: Lesson) -> None:
        """Replace the classifier of a version and the record of its lesson."""
        about = self.about(version)
        facts = {name: about[name] for name in ("version", "parent", "when", "options") if name in about}
        self._write(facts | {"lesson": lesson.record()}, classifier, use=False)

    def rewrite_lesson(self, version: int, lesson: Lesson) -> None:
        """Replace the record of a version's lesson."""
        about = self.about(version) | {"lesson": lesson.record()}
        try:
            with whole(self._version_folder(version) / _ABOUT) as part:
                part.write_text(_as_json(about), encoding="utf-8")
        except OSError as error:
            raise self._unwritten(error, f"version {version} is unchanged") from None

    def _settle(self) -> None:
        """Settle what was killed halfway: restore a version whose replacement is missing, and delete one that has been
        replaced or was being deleted, and weights that no version uses."""
        for gone in (self.path / _VERSIONS).glob(f"*{_GONE}"):
            shutil.rmtree(gone, ignore_errors=True)
        for before in (self.path / _VERSIONS).glob(f"*{_BEFORE}"):
            if (place := before.with_suffix("")).exists():
                shutil.rmtree(before, ignore_errors=True)
            else:
                before.replace(place)
        self._remove_unused_weights()

    def _remove_unused_weights(self) -> None:
        """Delete the weights of frozen encoders that no version uses, unless one that cannot be read may use them."""
        abouts, damaged = self.readable()
        if abouts and not damaged:
            used = {self._frozen_path(about["frozen"]["weights"]) for about in abouts if "frozen" in about}
            for weights in {*self.path.glob(_FROZEN)} - used:
                with suppress(OSError):
                    weights.unlink()

    def remove(self, version: int) -> None:
        """Delete a version, which must not be in use. If this is killed halfway, the version is gone nevertheless."""
        place = self._version_folder(version)
        try:
            shutil.rmtree(place.replace(place.with_name(f"{version}{_GONE}")))
        except OSError as error:
            raise MocaError(f"version {version} of model '{self.path}' cannot be removed: {error.strerror}") from None
        self._remove_unused_weights()

    def prune(self, keep: int = 5) -> dict[int, int]:
        """Delete all versions but the `keep` newest, the one in use, and the one that `rollback` returns to. Return the
        deleted versions and how many bytes each took."""
        if keep < 1:
            raise MocaError(f"keep={keep}: must be 1 or more")
        self.check()
        with self.teaching():
            numbers = self.numbers
            stay = {*numbers[-keep:], self.current, self._parent()}
            sizes = {number: self.size(number) for number in numbers if number not in stay}
            for number in sizes:
                self.remove(number)
        return sizes

    def _write(self, facts: dict[str, Any], classifier: Classifier, use: bool) -> Path:
        number = facts["version"]
        place = self.path / _VERSIONS / str(number)
        part, before = place.with_name(f"{number}.part"), place.with_name(f"{number}{_BEFORE}")
        replaces = place.exists()
        about = {"format": _FORMAT, "moca": __version__} | facts | classifier.about()
        try:
            for leftover in (part, before):
                shutil.rmtree(leftover, ignore_errors=True)
            part.mkdir(parents=True)
            (part / _ABOUT).write_text(_as_json(about), encoding="utf-8")
            learning = classifier.learning_.state()
            if learning["memory"] is not None:
                learning["memory"] = packed(learning["memory"])
            state = {"learning": learning, "extra": classifier.kept_.state()}
            (part / _STATE).write_bytes(torch_bytes(state))
            if classifier.frozen_ is not None and not (shared := self._frozen_path(classifier.frozen_.digest)).exists():
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
            outcome = "it is unchanged" if self.exists() else "none was created"
            raise self._unwritten(error, f"version {number} is unchanged" if replaces else outcome) from None
        finally:
            if before.exists() and not place.exists():  # the old version was moved away, and the new one is not there
                with suppress(OSError):
                    before.replace(place)
            with suppress(OSError):  # it is empty if the first version could not be written
                place.parent.rmdir()
        return place

    def use(self, version: int) -> None:
        """Put a version into use."""
        if version not in (known := self.numbers):
            raise MocaError(f"model '{self.path}' has no version {version}; it has {', '.join(map(str, known))}")
        with suppress(Damaged):  # a damaged model.json is rewritten; one with an unknown format raises
            _ = self.current if self.exists() else None
        try:
            with whole(self.path / _MODEL) as part:
                part.write_text(json.dumps({"format": _FORMAT, "moca": __version__, "current": version}) + "\n")
        except OSError as error:
            raise self._unwritten(error, "it is unchanged") from None

    def rollback(self, to: int | None = None) -> int:
        """Go back to the version before the one in use, or to another."""
        target = self._parent() if to is None else to
        if target is None:
            self._version_folder(None)  # raises if the model has no versions at all
            raise MocaError(f"version {self.current} of model '{self.path}' is its first; there is nothing before it")
        if target in (known := self.numbers):
            self.contents(target)  # raises if it is damaged, so that a working version stays in use
        elif to is None:
            raise MocaError(
                f"version {target} of model '{self.path}', the one before version {self.current}, was deleted; it has "
                f"{', '.join(map(str, known))}: moca model rollback {self._typed} --to NUMBER"
            )
        self.use(target)
        return int(target)

    def _parent(self) -> int | None:
        """The parent of the version in use; if its about.json is damaged, the last version with a smaller number."""
        try:
            parent: int | None = self.about()["parent"]
        except MocaError:
            return max((number for number in self.numbers if number < self.current), default=None)
        return parent

    def load(self, kind: type[Kind], version: int | None = None, device: str = "auto", **own: Any) -> Kind:
        """Load the classifier of a version, by default the one in use, or of a finished run. User-defined parts
        must be passed again in `own`."""
        about, state = self.contents(version)
        has_own_parts = any(part is not None for part in own.values())
        try:
            classifier = kind.revived(about, state, device=device, **own)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            if self.is_run() or has_own_parts or out_of_memory(error) or noted(error):
                raise
            path = self._version_folder(version) / _STATE
            raise self._damaged(path, "does not fit what about.json says of it") from None
        if not self.is_run():
            classifier.version_ = about["version"]
            classifier.continues_ = self.path.resolve(), about["version"], about["when"]
        return classifier

    def contents(self, version: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The `about()` and the state of the classifier of a version, or of a finished run."""
        if self.is_run():
            if version is not None:
                raise MocaError(f"'{self.path}' is a finished run, which has no versions; leave out the version")
            return RunFolder(self.path).load_model()
        about = self.about(version)
        state, frozen = self._state(version), about.get("frozen")
        extra = {"kept": state.get("extra", {})}
        extra |= {"frozen": self._load_tensors(self._frozen_path(frozen["weights"]))} if frozen else {}
        return about, state["learning"] | extra

    def _frozen_path(self, digest: str) -> Path:
        return self.path / f"frozen-{digest}.pt"

    def check(self) -> None:
        """Raise if there is no model."""
        if not self.exists():
            what, hint = (
                f"'{self.path}' is not a model",
                "give the folder of one; moca learn FOLDER --model NAME makes one",
            )
            if self.is_run():
                hint = f"it is a finished run, and becomes one with: moca learn FOLDER --model {self._typed}"
            elif (self.path / SETTINGS).is_file():
                hint = "the run has not ended, or its weights were not kept; record=weights keeps them"
            elif not self.path.exists():
                what, hint = f"there is no model '{self.path}'", f"moca learn FOLDER --model {self._typed} makes it"
            raise MocaError(f"{what}; {hint}")

    def check_free(self) -> None:
        """Raise if the folder holds anything but a model or a finished run."""
        strange = not self.exists() and not self.is_run() and self.path.is_dir()
        leftovers = (_LOCK, _VERSIONS, _FROZEN)  # of a first lesson that was killed
        if strange and not all(any(map(entry.match, leftovers)) for entry in self.path.iterdir()):
            raise MocaError(f"'{self.path}' is not empty and not a model; choose another name")

    def _version_folder(self, version: int | None) -> Path:
        self.check()
        number = self.current if version is None else version
        place = self.path / _VERSIONS / str(number)
        if not place.is_dir():
            if not (known := self.numbers):
                raise Damaged(
                    f"model '{self.path}' is damaged: it has no versions left; restore the folder {_VERSIONS}, "
                    "or remove the model and teach a new one"
                )
            remedy = f"; use the last of these with: moca model rollback {self._typed} --to {known[-1]}"
            raise MocaError(
                f"model '{self.path}' has no version {number}; it has {', '.join(map(str, known))}"
                + remedy * (version is None)
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
            raise self._damaged(path, "does not have the expected content")
        return content

    def _check_format(self, path: Path, content: dict[str, Any]) -> None:
        """Raise if this version of moca cannot read the file's format."""
        if "format" not in content:
            raise self._damaged(path, "does not have the expected content")
        if content["format"] != _FORMAT:
            writer = f"moca {content['moca']}" if "moca" in content else "the moca"
            raise MocaError(
                f"model '{self.path}' cannot be used: {path.relative_to(self.path)} has format {content['format']!r}, "
                f"and moca {__version__} reads {_FORMAT}; use {writer} that wrote it, or a newer one"
            )

    def _state(self, version: int | None) -> dict[str, Any]:
        state = self._load_tensors(path := self._version_folder(version) / _STATE)
        if "learning" not in state:
            raise self._damaged(path, "does not have the expected content")
        return state

    def _load_tensors(self, path: Path) -> dict[str, Any]:
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        except Exception:
            raise self._damaged(path, "cannot be read") from None
        return state

    def current_if_known(self) -> int | None:
        """The version in use; None if model.json does not say."""
        try:
            number: int = json.loads((self.path / _MODEL).read_text(encoding="utf-8"))["current"]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return number

    def _loads(self, version: int) -> bool:
        """Whether the files of a version can be read."""
        try:
            self.contents(version)
        except MocaError:
            return False
        return True

    def _unwritten(self, error: OSError, outcome: str) -> MocaError:
        full = error.errno == errno.ENOSPC and len(self.numbers) > 2
        room = f"; to make room: moca model prune {self._typed} --keep 1" if full else ""
        return MocaError(f"model '{self.path}' cannot be written: {error.strerror}; {outcome}{room}")

    def _damaged(self, path: Path, why: str) -> Damaged:
        """An error that says what is wrong with a file, and what to do about it."""
        remedy = "restore it"
        if path.name in (_ABOUT, _STATE):
            remedy = f"remove {path.parent}"
            if path.parent.name == str(self.current_if_known()):
                remedy = f"go back with: moca model rollback {self._typed}, and then {remedy}"
        elif path.name == _MODEL and (known := [number for number in self.numbers if self._loads(number)]):
            remedy = f"moca model rollback {self._typed} --to {known[-1]} (of {', '.join(map(str, known))}) rewrites it"
        return Damaged(f"model '{self.path}' is damaged: {path.relative_to(self.path)} {why}; {remedy}")


def _as_json(about: dict[str, Any]) -> str:
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"
