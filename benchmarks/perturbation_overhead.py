"""Claim: every feature-level perturbation (all but WAP) costs under 3 % of an ER step with ResNet-18.

    python benchmarks/perturbation_overhead.py --width 64 --json results/perturbation_overhead_cpu.json

Times, interleaved and in one process, a whole ER step, and its replay half from features to gradients with and without
each perturbation. The overhead is the difference of the last two, divided by the whole step. Medians over --repeats.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from moca import parts
from moca.batch import Batch
from moca.bench.measure import synchronise
from moca.models import build_model
from moca.perturb import perturbation
from moca.settings import Choice
from moca.settings.choice import choice_of
from moca.settings.heads import Cosine

VARIANTS = ("gaussian", "vmf", "doa_old", "doa_new", "vt", "add_new", "minus_new", "fgsm", "wap")
CLASSES = 100


def _encoder(width: int) -> Choice:
    return choice_of(parts.ENCODERS, f"resnet18:width={width}")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--perturb", nargs="*", default=VARIANTS, help="perturbations to time, also your own")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)

    model = build_model(_encoder(options.width), Cosine(), (3, 32, 32), CLASSES).to(device)
    x = torch.randn(2, options.batch, 3, 32, 32, device=device)
    y = torch.randint(0, CLASSES // 2, (2, options.batch), device=device)
    y[0] += CLASSES // 2

    def step() -> None:
        for part, label in zip(x, y, strict=True):
            F.cross_entropy(model(part), label).backward()

    h = torch.randn(2, options.batch, model.encoder.features, device=device).relu()
    replay = Batch(x=x[1], y=y[1], old=torch.ones(options.batch, dtype=torch.bool, device=device))
    new = Batch(x=x[0], y=y[0], features=h[0])

    def replay_half(perturb: Callable[[Batch, Batch], torch.Tensor] | None) -> None:
        features = h[1].clone().requires_grad_()
        f = perturb(replay.replace(features=features), new) if perturb else features
        F.cross_entropy(model.classify(f), y[1]).backward()

    variants = {name: perturbation(name, model=model, lr=0.1, classes=CLASSES) for name in options.perturb}
    jobs = {"step": step, "plain": lambda: replay_half(None)}
    jobs |= {name: (lambda p=p: replay_half(p)) for name, p in variants.items()}
    seconds = time_in_turn(jobs, device, options.repeats)
    overhead = {name: (seconds[name] - seconds["plain"]) / seconds["step"] for name in options.perturb}

    hardware = (
        torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    )
    print(f"ER step: {1e3 * seconds['step']:.2f} ms on {hardware}, {torch.get_num_threads()} threads, ", end="")
    print(f"torch {torch.__version__}, width {options.width}, batch {options.batch}+{options.batch}")
    for name, share in overhead.items():
        print(f"{name:10} {100 * share:7.2f} % of a step")
    if options.json:
        record = {
            "hardware": hardware,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            **{k: v for k, v in vars(options).items() if k not in ("perturb", "json")},
            "step_ms": 1e3 * seconds["step"],
            "overhead": overhead,
        }
        options.json.write_text(json.dumps(record, indent=2) + "\n")


def time_in_turn(jobs: dict[str, Callable[[], None]], device: torch.device, repeats: int) -> dict[str, float]:
    """Median seconds of each job, the jobs taking turns so that a busy machine slows all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats + 2):
        for name, job in jobs.items():
            synchronise(device)
            begun = time.perf_counter()
            job()
            synchronise(device)
            taken[name].append(time.perf_counter() - begun)
    return {name: statistics.median(times[2:]) for name, times in taken.items()}


if __name__ == "__main__":
    main()
