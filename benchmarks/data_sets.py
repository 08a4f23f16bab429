"""Claim: every stored data set is complete and correct, and its training images have the known means and deviations.

    python benchmarks/data_sets.py [NAME ...] [--json results/data_sets.json]

Reads every image in the store (MOCA_DATA) again, as `moca data check` does; means and standard deviations are
recomputed from the images, not read from the store. The exit code is 1 if a set differs from what was stored or
published.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moca.data import Store, catalogue, check

BLOCK = 4096


def statistics(images: NDArray[np.uint8]) -> dict[str, list[float]]:
    """Mean and standard deviation of each channel, for pixel values from 0 to 1."""
    channels = images.shape[3]
    counts = np.zeros((channels, 256), np.int64)
    for start in range(0, len(images), BLOCK):
        block = np.asarray(images[start : start + BLOCK]).reshape(-1, channels)
        counts += [np.bincount(block[:, c], minlength=256) for c in range(channels)]
    values = np.arange(256) / 255
    share = counts / counts.sum(1, keepdims=True)
    mean = share @ values
    std = np.sqrt((share * (values - mean[:, None]) ** 2).sum(1))
    return {"mean": mean.round(8).tolist(), "std": std.round(8).tolist()}


def described(name: str, store: Store) -> dict[str, object]:
    """The results of all checks of one set."""
    found, known = check(name, data_dir=store.directory), catalogue.known(name)
    train, test = found.info.train, found.info.test
    return {
        "title": known.title,
        "classes": len(found.info.classes),
        "shape": list(found.info.shape),
        "train": sum(train),
        "test": sum(test),
        "train a class": sorted({min(train), max(train)}),
        "test a class": sorted({min(test), max(test)}),
        "fingerprint": found.fingerprint,
        "as stored": found.intact,
        "as published": found.differences.same if found.differences else None,
        "one published copy": known.exact,
        "source": store.entry(name)["kind"],
        **statistics(store.arrays(name)["train_images"]),
    }


def main() -> int:
    """Check the given sets, or every known set that is stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    arguments = parser.parse_args()
    store = Store()
    names = arguments.names or [name for name in store if name in catalogue.names()]
    sets = {name: described(name, store) for name in names}
    command = shlex.join(["python", "benchmarks/data_sets.py", *sys.argv[1:]])
    text = json.dumps({"command": command, "sets": sets}, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    return 0 if all(s["as stored"] and s["as published"] is not False for s in sets.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
