"""List the data sets in the store and those that can be added; remove stored ones."""

from dataclasses import dataclass
from pathlib import Path

from moca.data import catalogue
from moca.data.integrity import refuse_absent
from moca.data.store import Info, Store
from moca.errors import MocaError


@dataclass(frozen=True)
class Listed:
    """One data set in the listing."""

    name: str
    title: str
    info: Info | None
    """Details of the stored copy, if there is one."""
    state: str
    """stored, damaged, embedded, or the call that adds it."""
    source: str
    protocols: tuple[str, ...] = ()
    """Names of its protocols from the literature."""


def listing(*, data_dir: Path | str | None = None) -> list[Listed]:
    """Every stored set, then the known ones that are not stored."""
    store = Store(data_dir)
    found = [_stored(name, store) for name in store]
    for name in catalogue.names():
        if name not in store:
            about = catalogue.known(name)
            found.append(Listed(name, about.title, None, "embedded" if about.embedded else about.adding, ""))
    return found


def _stored(name: str, store: Store) -> Listed:
    try:
        entry, info = store.entry(name), store.info(name)
        known = catalogue.recorded(entry)
    except MocaError as error:
        return Listed(name, str(error), None, "damaged", "")
    title, protocols = (known.title, tuple(known.protocols)) if known else (entry.get("kind", ""), ())
    return Listed(name, title, info, "stored", entry.get("source", ""), protocols)


def remove(name: str, *, data_dir: Path | str | None = None) -> bool:
    """Remove a name from the store. Its images and their generator are deleted unless another name shares them. Return
    whether a generator was deleted."""
    store = Store(data_dir)
    refuse_absent(name, store)
    generator = False
    if any((store.directory / "generators").glob("*")):
        from moca.generator.store import remove_generator  # imported late: loads torch

        generator = remove_generator(name, store)
    store.remove(name)
    return generator
