"""Claim: with an evenly shared memory, large classes do not displace small ones, and equal classes do not suffer.

    python benchmarks/uneven_lessons.py --seeds 0 1 2

`even` is `moca.ContinualClassifier()` with its defaults: classes have equal shares of its memory and are replayed
equally often. `reservoir` is the same with plain reservoir sampling and uniform replay. `flood`: six classes of 60
images, then one of 3,000 (for digits, which has fewer, noisy copies). `equal`: ten classes of 100 in six lessons. On
digits, and on CIFAR-10 (`moca data add cifar10`) at 16 pixels; accuracy in % on test images, the last number the mean
over all classes. One core, less than half an hour.
"""

import argparse

import numpy as np
import torch

import moca
from moca.learners.er_ace import ERACE
from moca.memory import Reservoir, Uniform

LESSONS = {
    "flood": [dict.fromkeys(range(6), 60), {6: 3000}],
    "equal": [dict.fromkeys(classes, 100) for classes in ((0, 1), (2, 3), (4,), (5, 6, 7), (8,), (9,))],
}
MEMORY = {("digits", "flood"): 150, ("digits", "equal"): 50, ("cifar10", "flood"): 2000, ("cifar10", "equal"): 200}


class PlainStore(Reservoir):
    """A subclass, because the classifier would replace `Reservoir` itself with `Balanced`."""


class PlainDraw(Uniform):
    """A subclass for the same reason."""


class Plain(ERACE):
    """ER-ACE with the memory of the paper."""

    store = PlainStore
    draw = PlainDraw


def images_of(name: str) -> tuple[np.ndarray, ...]:
    """Training images and labels, test images and labels."""
    data = moca.data.load(name)
    splits = []
    for split in (data.train, data.test):
        images = torch.as_tensor(split.images[:]).float()
        if name == "cifar10":
            images = torch.nn.functional.avg_pool2d(images, 2)
        splits += [images.round().byte().permute(0, 2, 3, 1).numpy(), np.asarray(split.labels)]
    return tuple(splits)


def some(images: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """`count` of these images; noisy copies if there are not enough."""
    if count <= len(images):
        return random.permutation(images)[:count]
    copies = images[random.integers(0, len(images), count)].astype(int)
    return (copies + random.integers(-12, 13, copies.shape)).clip(0, 255).astype("uint8")


def run(name: str, lessons: str, method: str, seed: int) -> str:
    """Accuracy on earlier classes and on those of the last lesson, and the mean over all classes, as a line."""
    random = np.random.default_rng(seed)
    x, y, x_test, y_test = images_of(name)
    order = random.permutation(10)
    learner = "er_ace" if method == "even" else Plain()
    model = moca.ContinualClassifier(learner, memory=MEMORY[name, lessons], seed=seed, device="cpu")
    for lesson in LESSONS[lessons]:
        parts = {order[c]: some(x[y == order[c]], count, random) for c, count in lesson.items()}
        model.learn(np.concatenate(list(parts.values())), np.repeat(list(parts), list(map(len, parts.values()))))
    accuracies = {c: 100 * model.score(x_test[y_test == c], y_test[y_test == c]) for c in model.classes_.tolist()}
    old = np.mean([accuracy for c, accuracy in accuracies.items() if c not in parts])
    new = np.mean([accuracies[c] for c in parts])
    every = np.mean(list(accuracies.values()))
    return f"{name} {lessons} {method} seed {seed}: old {old:.1f}, new {new:.1f}, all {every:.1f}"


def main() -> None:
    """Print one line for each data set, sequence of lessons, method and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", nargs="+", default=["digits", "cifar10"])
    options = parser.parse_args()
    for name in options.data:
        for lessons in LESSONS:
            for method in ("reservoir", "even"):
                for seed in options.seeds:
                    print(run(name, lessons, method, seed), flush=True)


if __name__ == "__main__":
    main()
