"""How many images per second a classifier predicts on one core: by itself, and as an ONNX file in onnxruntime.

    OMP_NUM_THREADS=1 python benchmarks/exported.py

Images of 32x32x3 in ten classes; both get a uint8 array. Measured in CPU time, as the best of --repeats interleaved
rounds, since other jobs on the machine can only slow them down.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from moca import ContinualClassifier

SHAPE, CLASSES = (32, 32, 3), 10


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", nargs="+", default=["convnet", "resnet18:width=8"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 100])
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)

    random = np.random.default_rng(0)
    images = random.integers(0, 256, (1000, *SHAPE), dtype=np.uint8)
    print(f"{'encoder':<20}{'batch':>6}{'predict':>10}{'onnxruntime':>13}   images per second")
    for encoder in options.encoder:
        classifier = ContinualClassifier(encoder=encoder, epochs=1, device="cpu")
        classifier.learn(images[:100], np.arange(100) % CLASSES)
        session = _session(classifier)
        for batch in options.batch:
            given = images[:200] if batch == 1 else images
            ways = [
                lambda some, c=classifier: c.predict_proba(some),
                lambda some, s=session: s.run(["probabilities"], {"images": some.transpose(0, 3, 1, 2)}),
            ]
            rates = np.max([[_rate(way, given, batch) for way in ways] for _ in range(options.repeats)], axis=0)
            print(f"{encoder:<20}{batch:>6}{rates[0]:>10.0f}{rates[1]:>13.0f}")


def _session(classifier: ContinualClassifier) -> Any:
    threads = onnxruntime.SessionOptions()
    threads.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        return onnxruntime.InferenceSession(classifier.export(Path(folder) / "model.onnx"), threads)


def _rate(way: Callable[[np.ndarray], object], images: np.ndarray, batch: int) -> float:
    start = time.process_time()
    for first in range(0, len(images), batch):
        way(images[first : first + batch])
    return len(images) / (time.process_time() - start)


if __name__ == "__main__":
    main()
