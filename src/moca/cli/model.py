"""`moca learn`, `moca predict` and `moca model`: the commands for a model that keeps learning."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from moca.cli.model_tables import (
    command,
    show_lesson,
    show_model,
    show_predictions,
    show_test,
    write_facts,
    write_json,
    write_test,
)
from moca.cli.show import aside, in_bytes, say
from moca.errors import Interrupted, MocaError
from moca.importing import loading
from moca.wording import counted

if TYPE_CHECKING:
    from moca.classifier.classifier import Classifier

app = App(
    name="model",
    help="A model that keeps learning: show, test, roll back, forget or rename a class, prune, export.",
    version_flags=(),
)

Model = Annotated[Path, Parameter(help="folder of a model, or of a finished run")]
Version = Annotated[int | None, Parameter(help="version of the model [default: the one in use]", show_default=False)]
Device = Annotated[str, Parameter(help="cpu, cuda, or auto")]
HeldOut = Annotated[float, Parameter(help="share of each class of a lesson to hold out for evaluation")]
Tolerate = Annotated[
    float,
    Parameter(
        help="largest drop in accuracy on old classes that a lesson may cause: 0.2 is 20 points, but no more than half "
        "of the accuracy there was (1 tolerates everything); more than that counts only if it is more than chance, "
        "which few held-out images can explain"
    ),
]
Format = Annotated[Literal["table", "json"], Parameter(help="output format")]

_NO_BAR_BELOW = 1.0
"""Seconds of work before a progress bar is shown."""
_AT_ONCE = 256
"""How many images are predicted between two updates of the progress bar."""
_REJECTED = 3
"""Exit code of a lesson that forgot too much: 1 is an error, and 2 a command that cannot be understood."""
_KEEP = 5
"""How many versions pruning keeps by default."""
_NEW = Group("For a new model", help="An existing model keeps the values that it was created with.", sort_key=1)


def _optional(help: str, **more: Any) -> Parameter:
    """A parameter whose default is described in its help text."""
    return Parameter(help=help, show_default=False, **more)


def learn(
    images: Annotated[Path, Parameter(help="folder with one subfolder of images per class")],
    /,
    *,
    model: Annotated[Path, Parameter(help="folder of the model; created if it does not exist")],
    learner: Annotated[str | None, _optional("training method [default: er_ace]", group=_NEW)] = None,
    perturb: Annotated[
        str | None,
        _optional("how replayed features are moved [default: gaussian or none, depending on the learner]", group=_NEW),
    ] = None,
    memory: Annotated[
        str | None, _optional("number of images kept for replay, or their size: 50MB [default: 2000]", group=_NEW)
    ] = None,
    encoder: Annotated[str | None, _optional("network [default: chosen by the images]", group=_NEW)] = None,
    frozen: Annotated[
        str | None, _optional("frozen network, on whose features the model is trained", group=_NEW)
    ] = None,
    optimiser: Annotated[str | None, _optional("sgd, adam or adamw [default: sgd]", group=_NEW)] = None,
    lr: Annotated[
        float | None,
        _optional("learning rate; small to fine-tune a pretrained encoder [default: 0.03; adam 0.001]", group=_NEW),
    ] = None,
    image_size: Annotated[
        int | None, _optional("resize images to this many pixels a side [default: chosen by the images]", group=_NEW)
    ] = None,
    augment: Annotated[
        str | None, _optional("random crops and, for colour images, mirroring [true|false]", group=_NEW)
    ] = None,
    seed: Annotated[int | None, _optional("random seed [default: 0]", group=_NEW)] = None,
    epochs: Annotated[
        int | None,
        _optional(
            "passes over the images, in this lesson; given for a new model, in later ones too [default: chosen by "
            "their number]"
        ),
    ] = None,
    held_out: HeldOut = 0.1,
    tolerate: Tolerate = 0.2,
    relearn: Annotated[bool, Parameter(help="also learn images that were forgotten with their class", negative=())] = (
        False
    ),
    format: Format = "table",
    device: Device = "auto",
) -> int:
    """Train a model on what is new in a folder of images; creates the model if there is none.

    Images that it has learnt before are skipped. Every lesson saves a new version of the model; moca model rollback
    returns to an earlier one. The exit code is 3 if a lesson forgot too much and is not put to use.
    """
    check_shares(held_out, tolerate)
    with loading():
        from moca.classifier.folder import ModelFolder
        from moca.classifier.lesson import teach
        from moca.engine.progress import Stages

    options = {"learner": learner, "perturb": perturb, "memory": memory, "encoder": encoder, "frozen": frozen,
               "epochs": epochs, "optimiser": optimiser, "lr": lr, "image_size": image_size, "augment": augment,
               "seed": seed}  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    folder = ModelFolder(model)
    try:
        with Stages(after=_NO_BAR_BELOW) as bars:
            lesson = teach(
                folder,
                images,
                options=given,
                held_out=held_out,
                tolerate=tolerate,
                device=device,
                relearn=relearn,
                say=aside,
                watch=bars,
            )
    except KeyboardInterrupt:
        state = f"'{model}' is unchanged" if folder.exists() or folder.is_run() else "no model was created"
        raise Interrupted(f"the lesson was stopped; {state}") from None
    if format == "json":
        write_json(asdict(lesson))
    else:
        show_lesson(lesson, model)
    return 0 if lesson.used else _REJECTED


def check_shares(held_out: float, tolerate: float) -> None:
    """Raise a `MocaError` unless both are valid shares."""
    if not 0 <= held_out < 1:
        raise MocaError(f"--held-out {held_out:g} is not a share from 0 to below 1 (a tenth is 0.1)")
    if not 0 <= tolerate <= 1:
        raise MocaError(f"--tolerate {tolerate:g} is not a share from 0 to 1 (20 points are 0.2)")


def predict(
    model: Model,
    /,
    *images: Annotated[Path, Parameter(help="images, or folders of them")],
    top: Annotated[int, Parameter(help="number of classes to print for each image")] = 1,
    version: Version = None,
    format: Annotated[Literal["table", "csv", "json"], Parameter(help="output format")] = "table",
    device: Device = "auto",
) -> int:
    """Predict the classes of images.

    Images that cannot be read are named and skipped; the exit code is then 1.
    """
    with loading():
        from moca.classifier.classifier import Classifier
        from moca.classifier.folder import ModelFolder
        from moca.classifier.images import files_of, left_out, readable
        from moca.data.place import readable as spelt
        from moca.engine.progress import Stages

    if not images:
        folder = ModelFolder(model)
        which = "" if folder.exists() or folder.is_run() else f", and '{model}' is not a model"
        raise MocaError(f"a model and images are needed{which}: moca predict MODEL IMAGES")
    if top < 1:
        raise MocaError(f"--top {top}: must be 1 or more")
    classifier = Classifier.load(model, version=version, device=device)
    _refuse_vectors(model, classifier)
    files = [file for path in images for file in files_of(path)]
    names, answers = classifier.classes_, []
    with Stages(after=_NO_BAR_BELOW) as bars:
        found, errors = readable(files, classifier.shape_, None, bars)
        for start in range(0, len(found), _AT_ONCE):
            shares = classifier.predict_proba(found[start : start + _AT_ONCE])
            best = (-shares).argsort(1, kind="stable")[:, :top]
            answers += [
                [(names[c].item(), float(row[c])) for c in chosen] for row, chosen in zip(shares, best, strict=True)
            ]
            bars("predicting", len(answers), len(found))
    read = [spelt(file) for place, file in enumerate(files) if place not in errors]
    rows = list(zip(read, answers, strict=True))
    unreadable = [(spelt(files[place]), error.why) for place, error in errors.items()]
    show_predictions(rows, unreadable, format)
    lines = list(map(str, errors.values()))
    if len(lines) > 1 and format == "table":  # the other formats list them
        lines = [f"{len(lines)} of {len(files)} images left out", *lines]
    elif lines:
        lines = [left_out(lines, len(files))]
    sys.stderr.writelines(f"moca: {line}\n" for line in lines)
    return 1 if errors else 0


@app.command
def test(
    model: Model,
    images: Annotated[Path, Parameter(help="folder with one subfolder of images per class")],
    /,
    *,
    version: Version = None,
    format: Format = "table",
    device: Device = "auto",
) -> int:
    """Test a model on a folder of images: accuracy, of each class too, and what is confused most often."""
    with loading():
        from moca.classifier.classifier import Classifier
        from moca.classifier.tested import examine
        from moca.engine.progress import Stages

    classifier = Classifier.load(model, version=version, device=device)
    _refuse_vectors(model, classifier)
    with Stages(after=_NO_BAR_BELOW) as bars:
        result = examine(classifier, images, aside, bars)
    if format == "json":
        write_test(model, classifier.version_, result)
    else:
        show_test(model, classifier.version_, result)
    return 0


def _refuse_vectors(model: Path, classifier: Classifier) -> None:
    if classifier.takes_vectors:
        raise MocaError(f"'{model}' has learnt vectors, not images; ask it in Python: moca.load_model('{model}')")


@app.command
def show(
    model: Model,
    /,
    *,
    version: Version = None,
    sheet: Annotated[Path | None, _optional("write the memory's images to this PNG file")] = None,
    format: Format = "table",
) -> int:
    """Show a model's classes, its memory, and the accuracies of its versions."""
    with loading():
        from moca.classifier.classifier import Classifier
        from moca.classifier.facts import facts_of
        from moca.classifier.folder import ModelFolder

    classifier = Classifier.load(model, version=version, device="cpu")
    if sheet is not None and classifier.keeps_vectors:
        raise MocaError(f"the memory of '{model}' holds features, not images; leave out --sheet")
    memory, names = classifier.memory_contents(), classifier.classes_.tolist()
    if sheet is not None and not memory:
        raise MocaError(f"the memory of '{model}' holds no images; leave out --sheet")
    facts = facts_of(ModelFolder(model), classifier)
    if format == "json":
        write_facts(model, facts)
    else:
        show_model(model, facts, _KEEP)
    if sheet is not None:
        with loading():
            from moca.data.sheet import PER_CLASS, write_sheet
        write_sheet({"memory": [(str(name), memory[name]) for name in names if name in memory]}, sheet)
        most = max(map(len, memory.values()), default=0)
        some = f" (the first {PER_CLASS} of each class, of up to {most})" if most > PER_CLASS else ""
        (aside if format == "json" else say)(f"Memory: {sheet}{some}")
    return 0


@app.command
def rollback(
    model: Annotated[Path, Parameter(help="folder of a model")],
    /,
    to: Annotated[int | None, _optional("version [default: the one before the version in use]")] = None,
) -> int:
    """Switch to an earlier version of a model; no version is deleted."""
    with loading():
        from moca.classifier.folder import ModelFolder

    folder = ModelFolder(model)
    folder.check()  # before `teaching` would create the folder of a model that does not exist
    left: dict[str, Any] = {}
    with folder.teaching():
        with suppress(MocaError):  # a damaged version is left behind by this, too
            left = folder.about()
        version = folder.rollback(to)
    say(f"Version {version} of {model} is in use.")
    if gone := [str(name) for name in left.get("classes", ()) if name not in folder.about()["classes"]]:
        back = command("rollback", model, "--to", left["version"])
        say(f"It does not know {', '.join(gone)}. To return to version {left['version']}, which does: {back}", "red")
    return 0


@app.command
def prune(
    model: Annotated[Path, Parameter(help="folder of a model")],
    /,
    *,
    keep: Annotated[int, Parameter(help="how many of the newest versions to keep")] = _KEEP,
) -> int:
    """Delete old versions of a model. The one in use and the one that moca model rollback returns to always stay."""
    with loading():
        from moca.classifier.folder import ModelFolder

    folder = ModelFolder(model)
    deleted = folder.prune(keep)
    which, left = (", ".join(map(str, numbers)) for numbers in (deleted, folder.numbers))
    what, freed = counted(len(deleted), "version"), in_bytes(sum(deleted.values()))
    done = f"Deleted {what} of {model} ({which}), {freed}" if deleted else "Nothing to delete"
    say(f"{done}. Left: {left}; {folder.current} is in use.")
    return 0


@app.command
def forget(
    model: Annotated[Path, Parameter(help="folder of a model")],
    name: Annotated[str, Parameter(help="class to forget")],
    /,
    *,
    all_versions: Annotated[bool, Parameter(help="also remove it from every earlier version", negative=())] = False,
) -> int:
    """Forget a class: remove it from the memory, the head, the prototypes and the held-out images."""
    with loading():
        from moca.classifier.erasure import forget, former_names
        from moca.classifier.folder import ModelFolder
        from moca.classifier.images import meant

    folder = ModelFolder(model)
    folder.check()  # before `forget` would create the folder of a model that does not exist
    label = meant(name, [label for about in folder.versions for label in about["classes"]])
    former = former_names(folder, label)
    version = forget(folder, label, all_versions=all_versions, device="cpu")
    earlier = "" if all_versions else " Earlier versions still have it; repeat with --all-versions to remove it there."
    say(f"'{name}' is forgotten; version {version} of {model} is in use.{earlier}")
    if former:
        whole = command("forget", model, former[0], "--all-versions")
        say(f"Before it was renamed it was '{former[0]}', which versions still have; to remove that: {whole}", "red")
    return 0


@app.command
def rename(
    model: Annotated[Path, Parameter(help="folder of a model")],
    old: Annotated[str, Parameter(help="class to rename")],
    new: Annotated[str, Parameter(help="its new name")],
    /,
) -> int:
    """Rename a class, in a new version. Nothing else changes."""
    with loading():
        from moca.classifier.folder import ModelFolder
        from moca.classifier.images import class_name, meant
        from moca.classifier.renaming import rename

    folder = ModelFolder(model)
    folder.check()  # before `rename` would create the folder of a model that does not exist
    if not new.strip():
        raise MocaError("a class needs a name")
    new = class_name(new)
    version = rename(folder, meant(old, folder.about()["classes"]), new)
    say(f"'{old}' is now '{new}'; version {version} of {model} is in use.")
    say(f"Rename its folder of images, too: to a lesson, images in a folder '{old}' are of another class.", "dim")
    return 0


@app.command
def export(
    model: Model,
    /,
    *,
    to: Annotated[Literal["onnx"], Parameter(help="file format")] = "onnx",
    out: Annotated[Path | None, _optional("file to write [default: the model's name, in the current folder]")] = None,
    version: Version = None,
) -> int:
    """Export a model to a file that onnxruntime can use without moca."""
    with loading():
        from moca.classifier.classifier import Classifier
        from moca.classifier.export import export

    classifier = Classifier.load(model, version=version, device="cpu")
    file, replaced = export(classifier, out or Path(f"{model.expanduser().resolve().name}.{to}"))
    channels, height, width = classifier.shape_
    takes = f"uint8 images (n, {channels}, {height}, {width})"
    if classifier.takes_vectors:
        takes = f"float32 vectors (n, {channels})"
    gives = f"scores and probabilities of {counted(len(classifier.classes_), 'class', 'classes')}"
    which = "" if classifier.version_ is None else f" (version {classifier.version_})"
    say(f"{file}{which}: {takes} to {gives}, checked against moca's own predictions.")
    if replaced:
        say(f"It takes the place of {replaced}.")
    return 0
