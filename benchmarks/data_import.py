"""Claim: an image folder goes into the store at 5,000 CIFAR-size PNG/s and 3,000 Tiny-ImageNet JPEG/s on two cores.

Also measured: opening a stored set (claim: under 50 ms), the peak memory of adding (claim: under 1 GiB), plain decoding
with Pillow in one thread in the same run as a yardstick for the machine, and threads against processes.

    python benchmarks/data_import.py FOLDER [FOLDER ...]

Every folder is one that `moca data add` takes; what is printed is one JSON object a folder.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from moca.data.decode import SUFFIXES, decode

SAMPLE = 10_000
ADDING = """
import json, resource, sys, time
from moca.data import add
workers = int(sys.argv[3]) or None
start = time.perf_counter()
info = add("measured", sys.argv[1], data_dir=sys.argv[2], workers=workers).info
seconds = time.perf_counter() - start
unit = 1 if sys.platform == "darwin" else 1024
mine, children = (resource.getrusage(who).ru_maxrss * unit for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"images": info.images, "seconds": seconds, "peak": mine, "child_peak": children}))
"""
OPENING = """
import sys, time
import torch
from moca.data import load
import moca.data.loading
start = time.perf_counter()
load("measured", data_dir=sys.argv[1])
print(time.perf_counter() - start)
"""


def run(code: str, *arguments: str) -> str:
    """A measurement in a fresh process, so that memory and imports are its own."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def files(folder: Path) -> list[str]:
    """Up to SAMPLE image files, read once so that the disk is not what is measured."""
    found = sorted(str(p) for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES)[:SAMPLE]
    for name in found:
        Path(name).read_bytes()
    return found


def yardstick(paths: list[str]) -> dict[str, float]:
    """Images a second, decoded and thrown away."""

    def some(chunk: list[str]) -> None:
        for path in chunk:
            decode(path)

    start = time.perf_counter()
    some(paths)
    alone = len(paths) / (time.perf_counter() - start)
    chunks = [paths[i : i + 256] for i in range(0, len(paths), 256)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        start = time.perf_counter()
        list(threads.map(some, chunks))
    return {"decoding, one thread": alone, "decoding, a thread a core": len(paths) / (time.perf_counter() - start)}


def measure(folder: Path, store: str) -> dict[str, object]:
    """Everything about one folder; adding is done twice, and the second time counts."""
    plain = yardstick(files(folder))
    rates = {}
    for label, workers in (("one process", "1"), ("a process a core", "0")):
        run(ADDING, str(folder), store, workers)
        added = json.loads(run(ADDING, str(folder), store, workers))
        rates[f"adding, {label}"] = added["images"] / added["seconds"]
    opening = min(float(run(OPENING, store)) for _ in range(3))
    return {
        "folder": folder.name,
        "images": added["images"],
        "images/s": {name: round(rate) for name, rate in {**plain, **rates}.items()},
        "adding / decoding in one thread": round(rates["adding, a process a core"] / plain["decoding, one thread"], 2),
        "peak MiB of add": round(added["peak"] / 2**20),
        "peak MiB of a decoding process": round(added["child_peak"] / 2**20),
        "opening, ms": round(1000 * opening, 1),
    }


def main() -> None:
    """Measure the folders given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(
        json.dumps(
            {"cores": os.cpu_count(), "machine": platform.processor() or platform.machine(), "load before": load}
        )
    )
    with tempfile.TemporaryDirectory() as store:
        for folder in arguments.folders:
            print(json.dumps(measure(folder, store), indent=1))


if __name__ == "__main__":
    main()
