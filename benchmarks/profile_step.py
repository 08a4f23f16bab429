"""Claim: convolutions take most of a captured step; the rest is BatchNorm, casts, the optimiser and small kernels.

    python benchmarks/profile_step.py --methods er er+wap --json results/profile_h200.json

Replays a captured step of each method under torch's profiler and adds up the kernels by kind. Kernels that run
concurrently count in full, so the sum may exceed the time of a step.
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from moca.bench.workload import in_second_task, noise_stream, run_settings
from moca.environment import hardware, versions
from moca.settings import Bench, validate

KINDS = {
    "BatchNorm, its addition and ReLU": r"^_(sums|normalise|gradient_sums|input_gradient)$",
    "convolutions": r"conv|xmma|implicit_gemm|fprop|dgrad|wgrad|cudnn|nhwc",
    "MOCA's frame, random numbers, augmentation": r"^_(project|displace|numbers|transform)",
    "loss and weights of WAP's inner step": r"^_(descend|slope)",
    "casts and optimiser (many tensors at once)": r"multi_tensor_apply",
    "products of the classifier": r"gemm|cublas",
}


def main() -> None:
    """Profile, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["er", "er+gaussian", "er+wap"])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(1, "captured steps need a CUDA device\n")
    device = torch.device("cuda")
    record = {"hardware": hardware(device), "versions": versions(), "width": options.width, "steps": options.steps}
    record["methods"] = {method: profiled(method, options.width, options.steps) for method in options.methods}
    for method, found in record["methods"].items():
        print(f"{method}: {found['kernels']:.0f} kernels, {found['microseconds']:.0f} us")
        for kind, (microseconds, kernels) in found["kinds"].items():
            print(f"  {microseconds:8.1f} us {kernels:6.1f} kernels  {kind}")
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


def profiled(method: str, width: int, steps: int) -> dict[str, Any]:
    """Time and number of the kernels in a step, by kind, and the twenty that take longest."""
    settings = validate(Bench, {"methods": [method], "width": width, "device": "cuda"})
    running = in_second_task(run_settings(settings, method, "captured"), noise_stream(settings.batch)).steps()
    for _ in range(10):
        next(running)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            next(running)
        torch.cuda.synchronize()
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    names: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in seen.events():
        if event.device_type == DeviceType.CUDA:
            for entry in (kinds[kind_of(event.name)], names[event.name[:120]]):
                entry[0] += event.device_time / steps
                entry[1] += 1 / steps
    longest = sorted(names.items(), key=lambda item: -item[1][0])
    return {
        "microseconds": sum(entry[0] for entry in kinds.values()),
        "kernels": sum(entry[1] for entry in kinds.values()),
        "kinds": dict(sorted(kinds.items(), key=lambda item: -item[1][0])),
        "longest": dict(longest[:20]),
    }


def kind_of(kernel: str) -> str:
    """What a kernel is for, by its name."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, kernel)), "everything else")


if __name__ == "__main__":
    main()
