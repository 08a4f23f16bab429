"""The record of a benchmark: every cell, the hardware, and how the cells compare."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moca.atomic import write
from moca.bench.cells import OFFICIAL, Announce, Cell, Configuration, measure, work_of
from moca.bench.measure import Work
from moca.bench.official import has_twin
from moca.bench.workload import BATCHES, CLASSES, MEMORY, TASKS
from moca.engine.device import pick_device
from moca.environment import hardware, versions
from moca.errors import MocaError
from moca.numerics import Numerics
from moca.settings import Bench

_WORKLOAD = {
    "images": "random, 3 x 32 x 32",
    "classes": CLASSES,
    "tasks": TASKS,
    "batches a task": BATCHES,
    "memory": f"{MEMORY}, or as many as the batch",
    "timed": "steps of the second task, the memory full",
}
_UNITS = {
    "ms": "wall time of a step of one run: of a block of steps over (steps x runs); over the blocks",
    "images_per_second": "new and replayed, over all runs",
    "flops": "of convolutions and matrix products in one eager step of our own (torch.utils.flop_counter)",
    "tflops_per_second": "these over the median time and over all runs; extra passes of the twin do not count",
    "over_er": "median ms over that of er in the same way and packing, less 1",
    "times_twin": "how many times as fast as the twin of the official code on this method",
    "memory": "bytes; GPU: peak of tensors and reserved, all runs; CPU: peak of the process so far",
}


class Record:
    """A benchmark: its settings, the hardware, and every cell so far."""

    def __init__(self, settings: Bench, out: Path | None = None, command: str = "") -> None:
        self.settings, self.out, self.command = settings, out, command
        self.device = pick_device(settings.device)
        self.date = datetime.now(UTC).isoformat(timespec="seconds")
        self.cells: list[Cell] = []
        self.hardware: dict[str, Any] = {}
        """The hardware, with the number of threads used."""
        self.er: Work | None = None
        """The work in a step of plain er."""

    def measure(self, announce: Announce = lambda number, of, configuration: None) -> Iterator[Cell]:
        """Measure and yield cells one by one, calling `announce` before each; the file is updated after each."""
        if self.out is not None and self.out.exists():
            raise MocaError(f"'{self.out}' exists already; choose another file with --out, or remove it")
        with Numerics(self.settings.threads)():
            self.hardware = hardware(self.device)
            self.save()
            try:
                self.er = work_of(self.settings, "er")
                for cell in measure(self.settings, self.device, announce):
                    self.cells.append(cell)
                    self.save()
                    yield cell
            finally:
                if self.out is not None and not self.cells:
                    self.out.unlink(missing_ok=True)

    @property
    def without_twin(self) -> list[str]:
        """Methods that the requested twin does not support."""
        methods = dict.fromkeys(cell.configuration.method for cell in self.cells)
        return [method for method in methods if self.settings.twin and not has_twin(method)]

    def over_er(self, cell: Cell) -> float | None:
        """How much longer a step takes than one of `er` in the same configuration, as a share; None if unknown."""
        chosen = cell.configuration
        ratio = self._ratio(cell, Configuration("er", chosen.way, chosen.runs))
        return None if ratio is None else ratio - 1

    def times_twin(self, cell: Cell) -> float | None:
        """The speed-up over the twin of the official code; None if unknown."""
        ratio = self._ratio(cell, Configuration(cell.configuration.method, OFFICIAL))
        return None if ratio is None else 1 / ratio

    def _ratio(self, cell: Cell, other: Configuration) -> float | None:
        theirs = next((c.timing for c in self.cells if c.configuration == other), None)
        return cell.timing.median / theirs.median if cell.timing and theirs else None

    def entry(self, cell: Cell) -> dict[str, Any]:
        """A cell as written to the file; null for whatever could not be measured."""
        chosen, timing, work = cell.configuration, cell.timing, cell.work
        rate = 1e3 / timing.median if timing else None
        return {
            "method": chosen.method,
            "way": chosen.way,
            "runs": chosen.runs,
            "reason": cell.reason or None,
            "ms": timing
            and {
                "median": timing.median,
                "min": min(timing.blocks),
                "max": max(timing.blocks),
                "blocks": len(timing.blocks),
                "steps": timing.steps,
            },
            "images_per_second": rate and work and rate * work.images,
            "flops": work and work.flops,
            "flops_over_er": work and self.er and work.flops and self.er.flops and work.flops / self.er.flops,
            "tflops_per_second": rate and work and work.flops and 1e-12 * rate * work.flops,
            "over_er": self.over_er(cell),
            "times_twin": self.times_twin(cell),
            "memory": cell.memory,
        }

    def as_dict(self) -> dict[str, Any]:
        """The whole record, ready for JSON."""
        return {
            "command": self.command,
            "date": self.date,
            "hardware": self.hardware,
            "versions": versions(),
            "settings": self.settings.model_dump(mode="json"),
            "workload": _WORKLOAD,
            "units": _UNITS,
            "cells": [self.entry(cell) for cell in self.cells],
        }

    def save(self) -> None:
        """Write the record so far, if a file was given."""
        if self.out is not None:
            write(self.out, json.dumps(self.as_dict(), indent=1) + "\n", "choose another --out")
