"""What a comparison has chosen with `choose`, saved in its folder: chosen.json, a list with one entry per method."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moca.atomic import whole
from moca.engine import request
from moca.engine.choose import Pick
from moca.engine.folder import RESULT
from moca.engine.plan import folder_name
from moca.engine.request import ASKED
from moca.engine.result import null_if_nan
from moca.errors import MocaError
from moca.settings.choosing import Choosing

CHOSEN = "chosen.json"


@dataclass(frozen=True)
class Selection:
    """The combination chosen for each learner with each perturbation, and how."""

    picks: list[Pick]
    share: float
    """The share of the training images that was held out."""
    seeds: list[int]
    """The seeds to choose with."""
    tested: list[int]
    """The seeds to test with."""

    @classmethod
    def of(cls, folder: Path) -> Selection | None:
        """The selection in the folder of a comparison; None if there was none, or if it is unreadable."""
        try:
            entries = json.loads((folder / CHOSEN).read_bytes())
            picks = [_pick(entry) for entry in entries]
            shared = entries[0]
            return cls(with_history(picks, folder), shared["held_out"], shared["seeds"], shared["tested_with_seeds"])
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return None

    def save(self, folder: Path) -> None:
        """Write chosen.json."""
        entries = [
            {
                "chosen": pick.label,
                "among": {label: null_if_nan(accuracy) for label, accuracy in pick.among.items()},
                "tested_before": pick.tested_before,
                "held_out": self.share,
                "seeds": self.seeds,
                "tested_with_seeds": self.tested,
            }
            for pick in self.picks
        ]
        with whole(folder / CHOSEN) as path:
            path.write_text(json.dumps(entries, indent=2) + "\n")

    @property
    def rejected(self) -> set[str]:
        """The combinations that were not chosen, as the folders of their runs are called, apart from the seed."""
        return {folder_name(label) for pick in self.picks for label in pick.among if label != pick.label}


def _pick(entry: Mapping[str, Any]) -> Pick:
    among = {label: math.nan if accuracy is None else accuracy for label, accuracy in entry["among"].items()}
    return Pick(entry["chosen"], among, entry.get("tested_before", {}))


def with_history(picks: Sequence[Pick], folder: Path) -> list[Pick]:
    """The picks with the other combinations that were tested before, by the comparison's runs and its chosen.json.

    More seeds may change a choice after test accuracies have been seen.
    """
    recorded: dict[str, Sequence[int]] = {}
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
        for entry in json.loads((folder / CHOSEN).read_bytes()):
            recorded |= _pick(entry).tested_before

    def before(pick: Pick) -> dict[str, list[int]]:
        others = [label for label in pick.among if label != pick.label]
        seeds = {label: sorted({*recorded.get(label, ()), *_tested(folder, label)}) for label in others}
        return {label: tested for label, tested in seeds.items() if tested}

    return [replace(pick, tested_before=before(pick)) for pick in picks]


def _tested(folder: Path, label: str) -> list[int]:
    """The seeds with which a combination was tested in a folder."""
    before = f"{folder_name(label)}-s"
    seeds = [path.parent.name.removeprefix(before) for path in folder.glob(f"{before}*/{RESULT}")]
    return [int(seed) for seed in seeds if seed.isdecimal()]


def refuse_mixing(folder: Path, how: Choosing | None) -> None:
    """Raise a `MocaError` if a comparison that chose would continue without choosing, or one that tested everything
    would choose only then: nobody could tell any more what was chosen before it was tested."""
    asked: Mapping[str, Any] = {}
    if (folder / ASKED).is_file():
        with suppress(MocaError):
            asked, _ = request.kept(folder)
    selection = Selection.of(folder)
    choosing = asked.get("choose") or (f"{selection.share:g}" if selection else "")
    if how is None and choosing:
        raise MocaError(
            f"the settings in '{folder}' were chosen with choose={choosing}; give it again, or choose another folder "
            "with out="
        )
    if how and asked and not choosing and any(folder.glob(f"*/{RESULT}")):
        raise MocaError(
            f"the runs in '{folder}' were tested without choose=, so their settings cannot be chosen before testing; "
            "choose another folder with out="
        )
