"""Claim: classes that come in very different numbers do not push each other out of a classifier, and where they come in
equal ones it is not worse.

    python benchmarks/uneven_lessons.py --seeds 0 1 2

`even` is `moca.ContinualClassifier()` as it comes: in its memory classes have even shares and are replayed equally
often. `reservoir` is the same with plain reservoir sampling and uniform replay. `flood`: six classes of 60 images, then
one of 3,000 (of digits, which are fewer, noisy copies). `equal`: ten classes of 100 in six lessons. Digits, and
CIFAR-10 (`moca data add cifar10`) at 16 pixels; accuracy in % on test images, the mean of all classes at the end. One
core, less than half an hour.
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
    """Of one's own, so that no other is taken in its place."""


class PlainDraw(Uniform):
    """Likewise."""


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
    """So many of these images; noisy copies where they are fewer."""
    if count <= len(images):
        return random.permutation(images)[:count]
    copies = images[random.integers(0, len(images), count)].astype(int)
    return (copies + random.integers(-12, 13, copies.shape)).clip(0, 255).astype("uint8")


def run(name: str, lessons: str, method: str, seed: int) -> str:
    """What the classes known before and those of the last lesson came to, and the mean of all classes."""
    random = np.random.default_rng(seed)
    x, y, x_test, y_test = images_of(name)
    order = random.permutation(10)
    learner = "er_ace" if method == "even" else Plain()
    model = moca.ContinualClassifier(learner, memory=MEMORY[name, lessons], seed=seed, device="cpu")
    for lesson in LESSONS[lessons]:
        parts = {order[c]: some(x[y == order[c]], count, random) for c, count in lesson.items()}
        model.learn(np.concatenate(list(parts.values())), np.repeat(list(parts), list(map(len, parts.values()))))
    told = {c: 100 * model.score(x_test[y_test == c], y_test[y_test == c]) for c in model.classes_.tolist()}
    old = np.mean([share for c, share in told.items() if c not in parts])
    new = np.mean([told[c] for c in parts])
    return (
        f"{name} {lessons} {method} seed {seed}: old {old:.1f}, new {new:.1f}, all {np.mean(list(told.values())):.1f}"
    )


def main() -> None:
    """Each of these, a line each."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given.add_argument("--data", nargs="+", default=["digits", "cifar10"])
    options = given.parse_args()
    for name in options.data:
        for lessons in LESSONS:
            for method in ("reservoir", "even"):
                for seed in options.seeds:
                    print(run(name, lessons, method, seed), flush=True)


if __name__ == "__main__":
    main()
