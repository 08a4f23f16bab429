"""Verify that a copy of a known data set is complete and correct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moca.data import catalogue
from moca.data.catalogue import Known
from moca.data.differences import Differences, compare, describe
from moca.data.fingerprint import Contents, Place
from moca.data.source import Source
from moca.data.splitting import Chosen
from moca.errors import MocaError


class NotTheSame(MocaError):
    """Raised for a copy of a known data set that is not complete and correct."""

    def __init__(self, message: str, details: list[str]) -> None:
        super().__init__(message)
        self.details = details


@dataclass(frozen=True)
class Proof:
    """The result of verifying a copy."""

    contents: Contents
    fingerprint: str
    same: Known | None
    """The known data set that it is identical to, if any."""
    differences: Differences | None
    """Differences from the expected set, if there was one to compare with."""


def prove(chosen: Chosen, source: Source, expected: Known | None, lenient: bool) -> Proof:
    """Compare a copy with the expected set; raise if it must be an exact copy and is not, unless `lenient`."""
    train, test = chosen
    contents = Contents(train.labels, train.digests, test.labels, test.digests)
    fingerprint = contents.fingerprint()
    differences = _differences(contents, chosen, source, expected, lenient)
    same = expected if differences and differences.same else _known_by(fingerprint)
    return Proof(contents, fingerprint, same, differences)


def _differences(
    contents: Contents, chosen: Chosen, source: Source, expected: Known | None, lenient: bool
) -> Differences | None:
    reference = expected.reference() if expected else None
    if expected is None or reference is None:
        return None
    shape = chosen[0].raw.shape
    if shape != expected.shape and expected.exact and not lenient:
        raise MocaError(
            f"'{expected.name}' has images of {_by(expected.shape)}, these are {_by(shape)}; "
            "add them under another name"
        )
    found = compare(contents, reference)
    if found.same or not expected.exact or lenient:
        return found
    details = describe(found, expected.classes, origin(chosen, source))
    example = f" (first: {details[0]})" if details and found.agreed else ""
    raise NotTheSame(
        f"this is not {expected.title} as published: {found}{example}; "
        "mend it, add it under another name, or keep it as it is with allow_differences=True",
        details,
    )


def origin(chosen: Chosen, source: Source) -> Callable[[Place], str]:
    """A function that says where in the source an image came from."""

    def where(place: Place) -> str:
        selection = chosen[place.split == "test"]
        row = int(selection.raw.rows[selection.members[place.index]])
        part = source.train if selection.raw is chosen[0].raw else source.test
        assert part is not None
        return part.name(row)

    return where


def _by(shape: tuple[int, int, int]) -> str:
    return f"{shape[0]}x{shape[1]} pixels in {'colour' if shape[2] == 3 else 'grey'}"


def _known_by(fingerprint: str) -> Known | None:
    """The known data set with this fingerprint."""
    return next((k for k in map(catalogue.known, catalogue.names()) if k.fingerprint == fingerprint), None)
