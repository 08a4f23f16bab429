"""In what the runs of a list are unlike most of the others. Works without torch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from moca.engine.listing import Listed
from moca.settings import COMMON, ELSEWHERE, Run, flat, word


def told_apart(runs: Sequence[Listed]) -> list[str]:
    """For each run, the unusual settings that method, data, seed and folder name do not show.

    A setting is unusual unless most runs on the same data have it or, for those that methods set individually, such as
    lr, most runs of the same method.
    """
    on_data: dict[str, list[Listed]] = {}
    of_method: dict[tuple[str, str], list[Listed]] = {}
    for run in runs:
        on_data.setdefault(run.data, []).append(run)
        of_method.setdefault((run.data, run.method), []).append(run)
    common = {data: _usual(some, True) for data, some in on_data.items()}
    own = {key: _usual(some, False) for key, some in of_method.items()}
    return [_unlike(run, common[run.data] | own[run.data, run.method]) for run in runs]


def _usual(runs: Sequence[Listed], common: bool) -> dict[str, Any]:
    """The value that most runs have of each setting, if there is one: of common settings, or of all others. Options
    have names such as perturb.lambda."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for name, value in _apart(run.settings).items():
            if (name.partition(".")[0] in COMMON) == common:
                counts.setdefault(name, Counter())[json.dumps(value)] += 1
    most = {name: (*count.most_common(1)[0], count.total()) for name, count in counts.items()}
    return {name: json.loads(value) for name, (value, count, of) in most.items() if 2 * count > of}


def _unlike(run: Listed, usual: dict[str, Any]) -> str:
    unlike = {
        name: value
        for name, value in _apart(run.settings).items()
        if value is not None and not (name in usual and usual[name] == value)
    }
    other = {name.removesuffix(".name") for name in unlike if name.endswith(".name")}  # their options differ anyway
    texts = [
        f"{name.removesuffix('.name').removesuffix('.size').removeprefix('perturb.').removeprefix('learner.')}"
        f"={word(value)}"
        for name, value in unlike.items()
        if name.endswith(".name") or name.partition(".")[0] not in other
    ]
    return " ".join(text for text in texts if text not in run.folder.name)


def _apart(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings and their options by name, without those that do not change the method or are shown anyway."""
    names = Run.model_fields.keys() & settings.keys() - {"data", "validation", *ELSEWHERE}
    return dict(sorted(flat({name: settings[name] for name in names}).items()))
