"""Claim: with few images, a perturbation of strength 0.5 does no harm, but the paper's 2 does.

    python benchmarks/classifier_defaults.py results/classifier_defaults.csv

Teaches a `moca.ContinualClassifier` in lessons of one to three classes, on digits (a third for training, another third
for evaluation) and on synthetic bars; final accuracy with separate seeds. One core, about 15 minutes.
"""

import csv
import sys

import numpy as np
from sklearn.datasets import load_digits

from moca import ContinualClassifier

SIDE = 12


def digits(learner: str, perturb: str, seed: int) -> float:
    """Accuracy on digits after six lessons, with a memory of 50."""
    data = load_digits()
    images, labels = (data.images / 16 * 255).astype("uint8"), data.target
    third = np.arange(len(labels)) % 3
    model = ContinualClassifier(learner, perturb, 50, seed=seed, device="cpu", epochs=15)
    for classes in ((0, 1), (2, 3), (4,), (5, 6, 7), (8,), (9,)):
        some = np.isin(labels, classes) & (third == 0)
        model.learn(images[some], labels[some])
    return model.score(images[third == 1], labels[third == 1])


def drawn(classes: tuple[int, ...], count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grey images with a bright bar, whose row or column depends on the class."""
    rows = []
    for c in classes:
        images = np.random.default_rng(1000 * seed + c).integers(0, 60, (count, SIDE, SIDE), dtype=np.uint8)
        at = 2 * (c // 2)
        bar = images[:, at : at + 2] if c % 2 == 0 else images[:, :, at : at + 2]
        bar += 180
        rows.append(images)
    return np.concatenate(rows), np.repeat(classes, count)


def bars(learner: str, perturb: str, seed: int) -> float:
    """Accuracy on bars after four lessons, with a memory of 40."""
    model = ContinualClassifier(learner, perturb, 40, seed=seed, device="cpu", epochs=25)
    for classes in ((0, 1), (2,), (3, 4), (5,)):
        model.learn(*drawn(classes, 10, 0))
    return model.score(*drawn(tuple(range(6)), 20, 9))


def main(out: str) -> None:
    """Write one line for every learner with every perturbation."""
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
