"""What is in the store, and what could be."""

from dataclasses import dataclass
from pathlib import Path

from moca.data import catalogue
from moca.data.integrity import stored
from moca.data.store import Info, Store
from moca.errors import MocaError


@dataclass(frozen=True)
class Listed:
    """One data set."""

    name: str
    title: str
    info: Info | None
    """Of the stored copy."""
    state: str
    """stored, damaged, embedded, or how to get it."""
    source: str
    protocols: tuple[str, ...] = ()
    """How it is used in the literature, by name."""


def listing(*, data_dir: Path | str | None = None) -> list[Listed]:
    """Every stored set, then the known ones that are not stored."""
    store = Store(data_dir)
    found = [_stored(name, store) for name in store]
    for name in catalogue.names():
        if name not in store:
            about = catalogue.known(name)
            state = "embedded" if about.embedded else f"moca data add {name}{'' if about.downloads else ' --from PATH'}"
            found.append(Listed(name, about.title, None, state, ""))
    return found


def _stored(name: str, store: Store) -> Listed:
    try:
        entry, info = store.entry(name), store.info(name)
        known = catalogue.known(entry["known"]) if entry.get("known") else None
    except MocaError as error:
        return Listed(name, str(error), None, "damaged", "")
    title, protocols = (known.title, tuple(known.protocols)) if known else (entry.get("kind", ""), ())
    return Listed(name, title, info, "stored", entry.get("source", ""), protocols)


def remove(name: str, *, data_dir: Path | str | None = None) -> bool:
    """Forget a stored set; its images, and the generator of them, are deleted unless another name means the same ones.
    Whether a generator was."""
    store = Store(data_dir)
    name, generator = stored(name, store), False
    if any((store.directory / "generators").glob("*")):
        from moca.generator.store import remove_generator  # loads torch

        generator = remove_generator(name, store)
    store.remove(name)
    return generator
