"""Claim: where images are few, a perturbation of strength 0.5 does no harm, and the paper's 2 does.

    python benchmarks/classifier_defaults.py results/classifier_defaults.csv

Lessons of one to three classes to a `moca.ContinualClassifier`, on digits (a third of them, another third to judge by)
and on bars drawn here; final accuracy with seeds of their own. One core, about 15 minutes.
"""

import csv
import sys

import numpy as np
from sklearn.datasets import load_digits

from moca import ContinualClassifier

SIDE = 12


def digits(learner: str, perturb: str, seed: int) -> float:
    """Six lessons, a memory of 50."""
    data = load_digits()
    images, labels = (data.images / 16 * 255).astype("uint8"), data.target
    third = np.arange(len(labels)) % 3
    model = ContinualClassifier(learner, perturb, 50, seed=seed, device="cpu", epochs=15)
    for classes in ((0, 1), (2, 3), (4,), (5, 6, 7), (8,), (9,)):
        some = np.isin(labels, classes) & (third == 0)
        model.learn(images[some], labels[some])
    return model.score(images[third == 1], labels[third == 1])


def drawn(classes: tuple[int, ...], count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grey images with a bright bar, in a row or column for each class."""
    rows = []
    for c in classes:
        images = np.random.default_rng(1000 * seed + c).integers(0, 60, (count, SIDE, SIDE), dtype=np.uint8)
        at = 2 * (c // 2)
        bar = images[:, at : at + 2] if c % 2 == 0 else images[:, :, at : at + 2]
        bar += 180
        rows.append(images)
    return np.concatenate(rows), np.repeat(classes, count)


def bars(learner: str, perturb: str, seed: int) -> float:
    """Four lessons, a memory of 40."""
    model = ContinualClassifier(learner, perturb, 40, seed=seed, device="cpu", epochs=25)
    for classes in ((0, 1), (2,), (3, 4), (5,)):
        model.learn(*drawn(classes, 10, 0))
    return model.score(*drawn(tuple(range(6)), 20, 9))


def main(out: str) -> None:
    """Every learner with every perturbation, a line each."""
    with open(out, "w", newline="") as file:  # noqa: PTH123 - a script
        writer = csv.writer(file)
        writer.writerow(["learner", "perturb", "data", "seeds", "accuracy"])
        for learner in ("er_ace", "er", "derpp"):
            for perturb in ("none", "vt:lambda=2", "vt:lambda=0.5", "vt:lambda=0.2", "gaussian:lambda=0.5"):
                for name, run, seeds in (("digits", digits, (100, 101)), ("bars", bars, (100, 101, 102))):
                    found = [f"{100 * run(learner, perturb, seed):.2f}" for seed in seeds]
                    writer.writerow([learner, perturb, name, " ".join(map(str, seeds)), " ".join(found)])
                    file.flush()
                    print(learner, perturb, name, *found)


if __name__ == "__main__":
    main(sys.argv[1])
