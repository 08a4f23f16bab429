"""The cells of a benchmark: each configuration is measured in turn; one that fails records the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from moca.bench.measure import Step, Timing, Work, count_work, forget_peak, peak_memory, stepping, time_steps
from moca.bench.official import OfficialTwin, has_twin
from moca.bench.workload import in_second_task, noise_stream, run_settings
from moca.engine.learning import Step as Done
from moca.engine.pack import on_stream
from moca.errors import MocaError, first_line
from moca.settings import Bench
from moca.streams import Stream

OFFICIAL = "official"
"""Name of the way in which the twin of the official code runs."""
_WARM_UP, _STEPS, _BLOCKS = (1, 20), (2, 50), (3, 5)
"""Warm-up steps, steps per block, and blocks: (on the CPU, where a step takes a second, on a GPU)."""


@dataclass(frozen=True)
class Configuration:
    """One method in one execution mode, alone or packed with more such runs (which differ in their seeds)."""

    method: str
    way: str
    runs: int = 1

    def __str__(self) -> str:
        return f"{self.method} {self.way}" + (f" x{self.runs}" if self.runs > 1 else "")


@dataclass(frozen=True)
class Cell:
    """The measurements of one configuration, or the reason why there are none."""

    configuration: Configuration
    timing: Timing | None
    work: Work | None
    memory: dict[str, int] | None
    reason: str


Announce = Callable[[int, int, Configuration], None]
"""Called before each configuration with its number, the total, and the configuration."""
T = TypeVar("T")


def configurations(settings: Bench, device: torch.device) -> list[Configuration]:
    """All configurations that the settings request, method by method."""
    packed = settings.packed if settings.packed is not None else (1, 2, 4, 8) if device.type == "cuda" else ()
    # Only captured steps can be packed; without any, packing is tried in another way, whose cells then say why not.
    possible = ways(settings, device)
    packing = "captured" if "captured" in possible else possible[0]
    wanted = []
    for method in dict.fromkeys(settings.methods):
        if settings.twin and has_twin(method):
            wanted.append(Configuration(method, OFFICIAL))
        for way in possible:
            runs = dict.fromkeys((1, *packed)) if way == packing else (1,)
            wanted += [Configuration(method, way, number) for number in runs]
    return wanted


def ways(settings: Bench, device: torch.device) -> tuple[str, ...]:
    """The requested ways, or all that the device supports; on a CPU only eager, since compiling takes minutes there."""
    possible = ("eager", "compiled", "captured") if device.type == "cuda" else ("eager",)
    return tuple(dict.fromkeys(settings.ways or possible))


def measure(settings: Bench, device: torch.device, announce: Announce) -> Iterator[Cell]:
    """Measure the requested configurations one by one, calling `announce` before each."""
    work: dict[str, Work | None] = {}
    wanted = configurations(settings, device)
    for number, configuration in enumerate(wanted, 1):
        announce(number, len(wanted), configuration)
        method = configuration.method
        if method not in work:
            work[method] = work_of(settings, method)
            if "compiled" in ways(settings, device):
                torch.compiler.reset()  # as in a fresh process: earlier compilations count towards a limit
        yield _measured(settings, configuration, device, work[method])


def work_of(settings: Bench, method: str) -> Work | None:
    """The work in a step of a method; None if the method cannot be run."""
    run = run_settings(settings, method, "eager")
    return attempt(lambda: count_work(in_second_task(run, noise_stream(settings.batch))))[0]


def _measured(settings: Bench, configuration: Configuration, device: torch.device, work: Work | None) -> Cell:
    cuda = device.type == "cuda"

    def timed() -> Timing:
        forget_peak(device)
        runs = prepare(settings, configuration, noise_stream(settings.batch), device)
        return time_steps(
            runs, device, _WARM_UP[cuda], settings.steps or _STEPS[cuda], settings.blocks or _BLOCKS[cuda]
        )

    timing, reason = attempt(timed)
    return Cell(configuration, timing, work, peak_memory(device) if timing else None, reason)


def prepare(settings: Bench, configuration: Configuration, stream: Stream, device: torch.device) -> list[Step]:
    """The runs of a configuration, ready to step."""
    method, way = configuration.method, configuration.way

    def official() -> Iterator[float]:
        return OfficialTwin(run_settings(settings, method, "eager"), stream, device).steps()

    def ours(seed: int) -> Iterator[Done]:
        return in_second_task(run_settings(settings, method, way, seed), stream).steps()

    if way == OFFICIAL:
        return [stepping(official)]
    if configuration.runs > 1 and device.type != "cuda":
        raise MocaError("several runs at once need a CUDA device")
    if configuration.runs > 1 and way != "captured":
        raise MocaError(
            "only captured steps are packed: eager ones keep the host busy, compiled ones may block the GPU"
        )
    return [stepping(partial(ours, seed), on_stream(device)) for seed in range(configuration.runs)]


def attempt(what: Callable[[], T]) -> tuple[T | None, str]:
    """Call a function; return its result, or None and the reason in one line."""
    try:
        return what(), ""
    except Exception as error:  # a failure in one cell must not end the others
        reason = first_line(error)
        return None, reason if isinstance(error, MocaError) else f"{type(error).__name__}: {reason}"
