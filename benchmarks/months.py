"""Claim: a classifier whose classes arrive month by month keeps what it knew, with a small memory, and MOCA helps it.

    python benchmarks/months.py --seeds 0 1 2                # CIFAR-100, ten months of ten classes, memory 500 and 2000
    python benchmarks/months.py --seeds 0 1 2 --frozen       # on frozen features of an encoder trained on half of the
                                                             # classes: of Tiny-ImageNet if stored, else CIFAR-100

`default` is `moca.ContinualClassifier()` as it comes, `plain` the same without the perturbation, `er` plain experience
replay, `finetune` learns every month without a memory, and `joint` learns everything so far from scratch each month.
After each month: accuracy on the test images of the classes that were known before, and of those that are new. Every
month is a row of results/months.csv as soon as it is done, and the same command goes on where it was stopped;
results/months.md is the table. `--only`, `--memory`, `--images-per-class`, `--months`, `--encoder`, `--epochs` make it
smaller; rows of other sizes and encoders stay apart.
"""

import argparse
import csv
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

import moca
from moca.engine.device import pick_device

METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "plain": {"perturb": "none"},
    "er": {"learner": "er", "perturb": "none"},
    "finetune": {"learner": "finetune", "perturb": "none"},
    "joint": {"learner": "finetune", "perturb": "none"},
}
WITHOUT_MEMORY = ("finetune", "joint")
KEY = ("data", "images", "frozen", "encoder", "epochs", "months", "method", "memory", "seed")
COLUMNS = (*KEY, "month", "classes", "old", "new", "all", "seconds", "device")


@dataclass(frozen=True)
class Setting:
    """One method through all months."""

    data: str
    images: int
    frozen: bool
    encoder: str
    epochs: str
    months: int
    method: str
    memory: int
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """As the file has it."""
        return tuple(str(getattr(self, name)) for name in KEY)


def samples(split: moca.data.Split, classes: list[int], most: int | None = None) -> tuple[torch.Tensor, list[int]]:
    """The images of some classes, so many of each at the most."""
    rows = torch.cat([torch.nonzero(split.labels == c).flatten()[:most] for c in classes])
    return split.images[rows], split.labels[rows].tolist()


def halves(classes: int) -> tuple[list[int], list[int]]:
    """Classes that an encoder is trained on, and the others, which it never sees: the same whatever the seed."""
    order = np.random.default_rng(0).permutation(classes).tolist()
    return sorted(order[: classes // 2]), sorted(order[classes // 2 :])


def encoder_of(data: moca.Dataset, options: argparse.Namespace) -> str:
    """An encoder trained on half of the classes, once."""
    facts = (data.name, options.images_per_class or "all", options.encoder or "auto", options.encoder_epochs)
    place = options.work / f"encoder-{'-'.join(map(str, facts)).replace(':', '-')}"
    if not (place / "model.json").exists():
        known, _ = halves(len(data.classes))
        chosen = {"encoder": options.encoder, "epochs": options.encoder_epochs}
        model = moca.ContinualClassifier("finetune", "none", device=options.device, **chosen)
        begun = time.perf_counter()
        model.fit(*samples(data.train, known, options.images_per_class))
        accuracy = model.score(*samples(data.test, known))
        print(f"encoder: {len(known)} classes, {accuracy:.1%}, {time.perf_counter() - begun:.0f} s", flush=True)
        model.save(place)
    return f"pretrained:weights={place}"


def through(setting: Setting, data: moca.Dataset, options: argparse.Namespace, done: int) -> Iterator[dict[str, Any]]:
    """The months that are left, a row each."""
    classes = halves(len(data.classes))[1] if setting.frozen else list(range(len(data.classes)))
    order = np.random.default_rng(setting.seed).permutation(classes).tolist()
    each = len(order) // setting.months
    given = METHODS[setting.method] | {"seed": setting.seed, "device": options.device, "epochs": options.epochs}
    if setting.method not in WITHOUT_MEMORY:
        given["memory"] = setting.memory
    if setting.frozen:
        given["frozen"] = encoder_of(data, options)
    elif options.encoder:
        given["encoder"] = options.encoder
    place = options.work / "-".join(setting.key).replace(":", "-")
    model = moca.load_model(place, device=options.device) if done and setting.method != "joint" else None
    for month in range(done, setting.months):
        old, new = order[: each * month], order[each * month : each * (month + 1)]
        begun = time.perf_counter()
        if setting.method == "joint":
            model = moca.ContinualClassifier(**given).fit(*samples(data.train, old + new, options.images_per_class))
        else:
            model = model or moca.ContinualClassifier(**given)
            if (
                month == done == 0 or new[0] not in model.classes_
            ):  # it may have been stopped before its row was written
                model.learn(*samples(data.train, new, options.images_per_class))
        seconds = time.perf_counter() - begun
        images, answers = samples(data.test, old + new)
        right, known = model.predict(images) == np.array(answers), np.isin(answers, old)
        told = {"old": right[known], "new": right[~known], "all": right}
        if setting.method != "joint":
            kept(model, place)
        shares = {name: f"{100 * some.mean():.2f}" if len(some) else "" for name, some in told.items()}
        facts = {"month": month + 1, "classes": len(old + new), "device": name_of(options.device)}
        yield dict(zip(KEY, setting.key, strict=True)) | facts | shares | {"seconds": f"{seconds:.1f}"}
    shutil.rmtree(place, ignore_errors=True)


def kept(model: moca.ContinualClassifier, place: Path) -> None:
    """The last month alone, to go on from."""
    last = model.save(place)
    for other in last.parent.iterdir():
        if other != last:
            shutil.rmtree(other)


def name_of(device: str) -> str:
    """What a number was measured on."""
    chosen = pick_device(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"


def rows_of(file: Path) -> list[dict[str, str]]:
    """What is known already."""
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def table(rows: list[dict[str, str]]) -> str:
    """Means over seeds after each month, `old / new` in %, and of all classes after the last with the seeds' spread."""
    groups: dict[tuple[str, ...], dict[tuple[str, int], list[dict[str, str]]]] = {}
    for row in rows:
        group = tuple(row[name] for name in KEY if name not in ("method", "memory", "seed"))
        groups.setdefault(group, {}).setdefault((row["method"], int(row["memory"])), []).append(row)
    text = "# Does it help?\n\nWritten by `benchmarks/months.py` from `months.csv`: accuracy in % on test images of "
    text += "old / new classes after each month, mean over seeds; at the end of all classes.\n"
    for (data, images, frozen, encoder, epochs, months), methods in groups.items():
        some = next(iter(methods.values()))[0]
        text += f"\n## {data}, {months} months, {'all' if images == '0' else images} images of a class"
        text += f"{', frozen encoder' * (frozen == 'True')}, encoder {encoder}, epochs {epochs} ({some['device']})\n\n"
        text += (
            "| method | memory | seeds | "
            + " | ".join(str(m + 1) for m in range(int(months)))
            + " | all at the end |\n"
        )
        text += "|---" * (int(months) + 4) + "|\n"
        for (method, memory), found in sorted(
            methods.items(), key=lambda one: (one[0][1], list(METHODS).index(one[0][0]))
        ):
            cells = []
            for month in range(1, int(months) + 1):
                now = [row for row in found if int(row["month"]) == month]
                old, new = ([float(row[name]) for row in now if row[name]] for name in ("old", "new"))
                cells.append(f"{f'{mean(old):.1f} / ' if old else ''}{mean(new):.1f}" if new else "")
            last = [float(row["all"]) for row in found if row["month"] == months]
            spread = f" ± {stdev(last):.1f}" if len(last) > 1 else ""
            end = f"{mean(last):.1f}{spread}" if last else ""
            seeds = len({row["seed"] for row in found})
            text += f"| `{method}` | {memory or 'none'} | {seeds} | {' | '.join(cells)} | {end} |\n"
    return text


def main() -> None:
    """All settings, one after the other, or what is left of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--memory", nargs="+", type=int, default=[500, 2000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--months", type=int, default=10)
    parser.add_argument("--images-per-class", type=int)
    parser.add_argument("--data", help="[default: cifar100; with --frozen tinyimagenet if it is stored]")
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--encoder", help="[default: the classifier's own choice]")
    parser.add_argument("--epochs", type=int, help="[default: the classifier's own choice]")
    parser.add_argument("--encoder-epochs", type=int, default=20, help="of the encoder that is frozen")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("results/months.csv"))
    parser.add_argument("--work", type=Path, default=Path("runs/months"), help="where it is kept how far each has got")
    options = parser.parse_args()
    try:
        data = moca.load(options.data or ("tinyimagenet" if options.frozen else "cifar100"))
    except moca.MocaError:
        if options.data or not options.frozen:
            raise
        data = moca.load("cifar100")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for method in options.only:
            for memory in [0] if method in WITHOUT_MEMORY else options.memory:
                setting = Setting(
                    data.name, options.images_per_class or 0, options.frozen, options.encoder or "auto",
                    str(options.epochs or "auto"), options.months, method, memory, seed,
                )  # fmt: skip
                done = sum(tuple(row[name] for name in KEY) == setting.key for row in rows_of(options.out))
                for row in through(setting, data, options, done) if done < options.months else ():
                    fresh = not options.out.exists()
                    with options.out.open("a", newline="") as file:
                        writer = csv.DictWriter(file, COLUMNS)
                        if fresh:
                            writer.writeheader()
                        writer.writerow(row)
                    options.out.with_suffix(".md").write_text(table(rows_of(options.out)))
                    print(*(row[name] for name in COLUMNS[6:-1]), flush=True)


if __name__ == "__main__":
    main()
