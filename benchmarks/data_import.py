"""Claim: an image folder is imported at 5,000 CIFAR-size PNG/s and 3,000 Tiny-ImageNet JPEG/s on two cores.

Also measured: opening a stored set (claim: under 50 ms), the peak memory of adding (claim: under 1 GiB), plain decoding
with Pillow in one thread as a yardstick for the machine, and adding with one thread per core against a single thread
(claim: no slower). --size resizes the images.

    python benchmarks/data_import.py FOLDER [FOLDER ...] [--json results/data_import.json]
    python benchmarks/data_import.py --from-stored cifar10 --images 20000

Folders must be such as `moca data add` accepts; `--from-stored` first writes a stored set as a folder of PNG files.
Prints, and with --json writes, the machine, its load and one entry per folder.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import PIL
from PIL import Image

from moca.data import Store
from moca.data.decode import SUFFIXES, decode

SAMPLE = 10_000
ADDING = """
import json, resource, sys, time
from moca.data import add
workers, size = (int(word) or None for word in sys.argv[3:])
start = time.perf_counter()
info = add("measured", sys.argv[1], data_dir=sys.argv[2], workers=workers, size=size).info
seconds = time.perf_counter() - start
unit = 1 if sys.platform == "darwin" else 1024
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
print(json.dumps({"images": info.images, "seconds": seconds, "peak": peak}))
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
    """Run a measurement in a fresh process, so that its memory and imports are its own."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def files(folder: Path) -> list[str]:
    """Up to SAMPLE image files, read once so that they are cached and the disk is not measured."""
    found = sorted(str(p) for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES)[:SAMPLE]
    for name in found:
        Path(name).read_bytes()
    return found


def yardstick(paths: list[str], size: int | None) -> float:
    """Images per second that are decoded in one thread, and discarded."""
    start = time.perf_counter()
    for path in paths:
        decode(path, size)
    return len(paths) / (time.perf_counter() - start)


def measure(folder: Path, store: str, size: int | None) -> dict[str, object]:
    """All measurements of one folder. The best of five rounds of adding counts, as other jobs may use the machine."""
    plain = yardstick(files(folder), size)
    rates = {"adding, one thread": 0.0, "adding, a thread a core": 0.0}
    for _ in range(5):
        for label, workers in zip(rates, ("1", "0"), strict=True):
            added = json.loads(run(ADDING, str(folder), store, workers, str(size or 0)))
            rates[label] = max(rates[label], added["images"] / added["seconds"])
    opening = min(float(run(OPENING, store)) for _ in range(3))
    return {
        "folder": folder.name,
        "images": added["images"],
        "images/s": {name: round(rate) for name, rate in {"decoding, one thread": plain, **rates}.items()},
        "adding / decoding in one thread": round(rates["adding, a thread a core"] / plain, 2),
        "peak MiB of add": round(added["peak"] / 2**20),
        "opening, ms": round(1000 * opening, 1),
    }


def pictures(name: str, count: int, root: Path) -> Path:
    """Write `count` images of a stored set, evenly spaced, as train/<class>/*.png and test/<class>/*.png."""
    store = Store()
    arrays, classes = store.arrays(name), store.info(name).classes
    for split, wanted in (("train", count - count // 6), ("test", count // 6)):
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        for index in np.linspace(0, len(labels) - 1, min(wanted, len(labels))).astype(int).tolist():
            place = root / split / classes[labels[index]]
            place.mkdir(parents=True, exist_ok=True)
            image = images[index]
            Image.fromarray(image if image.shape[2] == 3 else image[:, :, 0]).save(place / f"{index}.png")
    return root


def main() -> None:
    """Measure the given folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument(
        "--from-stored", nargs="*", default=[], metavar="NAME", help="stored sets to write as folders first"
    )
    parser.add_argument("--images", type=int, default=20_000, help="number of images from each stored set")
    parser.add_argument("--size", type=int, help="resize images to this many pixels a side")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    arguments = parser.parse_args()
    result: dict[str, object] = {
        "command": shlex.join(["python", "benchmarks/data_import.py", *sys.argv[1:]]),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pillow": PIL.__version__,
        "load before": round(os.getloadavg()[0], 2),
    }
    with tempfile.TemporaryDirectory() as work:
        folders = list(arguments.folders)
        # In another process: memory that this one touches would count as that of its children.
        with ProcessPoolExecutor(1, get_context("spawn")) as maker:
            for name in arguments.from_stored:
                place = Path(work) / f"{name} as PNG"
                folders.append(maker.submit(pictures, name, arguments.images, place).result())
        result["folders"] = [measure(folder, str(Path(work) / "store"), arguments.size) for folder in folders]
    from moca.environment import processor  # late: torch here would count as memory of child processes

    result["processor"] = processor()
    result["load after"] = round(os.getloadavg()[0], 2)
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
