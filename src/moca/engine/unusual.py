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

    A setting is unusual if it differs from most runs on the same data or, for those that methods set individually, such
    as lr, from most runs of the same method.
    """
    on_data: dict[str, list[Listed]] = {}
    of_method: dict[tuple[str, str], list[Listed]] = {}
    for run in runs:
        on_data.setdefault(run.data, []).append(run)
        of_method.setdefault((run.data, run.method), []).append(run)
    common = {
        data: {name: value for name, value in _usual(some).items() if name.partition(".")[0] in COMMON}
        for data, some in on_data.items()
    }
    usual = {(data, method): _usual(some) | common[data] for (data, method), some in of_method.items()}
    return [_unlike(run, usual[run.data, run.method]) for run in runs]


def _usual(runs: Sequence[Listed]) -> dict[str, Any]:
    """The most common value of each setting that can distinguish runs; options have names such as perturb.lambda."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for name, value in _apart(run.settings).items():
            counts.setdefault(name, Counter())[json.dumps(value)] += 1
    return {name: json.loads(count.most_common(1)[0][0]) for name, count in counts.items()}


def _unlike(run: Listed, usual: dict[str, Any]) -> str:
    unlike = {name: value for name, value in _apart(run.settings).items() if value is not None and value != usual[name]}
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
