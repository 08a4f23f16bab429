"""Claim: a classifier whose classes arrive month by month remembers old ones with a small memory, and MOCA helps it.

    python benchmarks/months.py --seeds 0 1 2            # CIFAR-100: ten months of ten classes, memory 500 and 2000
    python benchmarks/months.py --seeds 0 1 2 --frozen   # Tiny-ImageNet: an encoder learns half of the classes and is
                                                         # frozen; the others arrive in ten months, as its features

`default` is `moca.ContinualClassifier()` with its defaults, `plain` the same without the perturbation, `er` plain
experience replay, `finetune` learns every month without a memory, and `joint` is trained from scratch on everything so
far, only after months 1, 5 and 10 (`--joint-after`). After each month they are tested on the classes known before and
on the new ones. Finished methods are written to results/months.csv, and as a table to results/months.md; the same
command runs what is missing. On a GPU use `--jobs 8`.

To choose a default, `--validation` tests on a tenth of the training images, held out, and `--only` takes any learner
with any perturbation, such as derpp+vt:lambda=0.5.
"""

import argparse
import csv
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

import moca
from moca import parts
from moca.defaults import own_recipe
from moca.engine.device import pick_device
from moca.models.frozen import Frozen
from moca.settings.choice import choice_of

METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "plain": {"perturb": "none"},
    "er": {"learner": "er", "perturb": "none"},
    "finetune": {"learner": "finetune", "perturb": "none"},
    "joint": {"learner": "finetune", "perturb": "none"},
}
WITHOUT_MEMORY = ("joint", "finetune")
HELD_OUT = 10
"""With `--validation`, one in this many training images of each class is held out."""
PRETRAINING = {"batch": 64, "lr": 0.05, "schedule": "cosine", "optimiser": "sgd:momentum=0.9,weight_decay=5e-4",
               "head": "linear"}  # fmt: skip
"""Training settings of the encoder that is frozen: customary ones for training on all images at once."""


@dataclass(frozen=True)
class Setting:
    """One method through all months."""

    data: str
    frozen: str
    """Frozen encoder whose features arrive instead of images; empty if images do."""
    frozen_epochs: str
    """Epochs that the frozen encoder was trained for; empty without one, and in old rows that did not record it."""
    images: str
    """Images per class."""
    encoder: str
    """The encoder that is trained; `auto` is the classifier's own choice, as in `epochs`."""
    epochs: str
    schedule: str
    """Learning-rate schedule within a month, from the classifier's own recipe, which has changed over time."""
    months: int
    method: str
    memory: int
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """The setting as text, as in the CSV file."""
        return tuple(map(str, asdict(self).values()))


KEY = tuple(field.name for field in fields(Setting))
TABLE = KEY[: KEY.index("method")]
"""Columns that are the same in all rows of one table."""
COLUMNS = (*KEY, "month", "classes", "old", "new", "all", "seconds", "device")


@dataclass(frozen=True)
class Samples:
    """Images or features, and their labels."""

    x: Tensor
    y: Tensor

    def split(self) -> tuple["Samples", "Samples"]:
        """Split into samples to train on and held-out samples of each class."""
        place = torch.zeros_like(self.y)
        for c in self.y.unique():
            place[self.y == c] = torch.arange(int((self.y == c).sum()))
        held = place % HELD_OUT == 0
        return Samples(self.x[~held], self.y[~held]), Samples(self.x[held], self.y[held])

    def of(self, classes: list[int], most: int | None = None) -> tuple[Tensor, list[int]]:
        """The samples of some classes, at most `most` of each."""
        rows = torch.cat([torch.nonzero(self.y == c).flatten()[:most] for c in classes])
        return self.x[rows], self.y[rows].tolist()


def halves(classes: int) -> tuple[list[int], list[int]]:
    """The classes that an encoder is trained on, and the others, which it never sees; independent of the seed."""
    order = np.random.default_rng(0).permutation(classes).tolist()
    return sorted(order[: classes // 2]), sorted(order[classes // 2 :])


def trained_encoder(data: moca.Dataset, options: argparse.Namespace) -> Path:
    """Train an encoder on half of the classes, unless it was done before; return the run's folder."""
    most = options.images_per_class
    facts = (data.name, most or "all", options.frozen_encoder.replace(":", "-"), options.frozen_epochs)
    folder: Path = options.work / f"encoder-{'-'.join(map(str, facts))}"
    if not weights_of(folder).exists():
        known, _ = halves(len(data.classes))
        train, test = (Samples(s.images, s.labels).of(known, n) for s, n in ((data.train, most), (data.test, None)))
        done = moca.run(
            data=(train, test), learner="finetune", tasks=1, model=options.frozen_encoder, device=options.device,
            epochs=options.frozen_epochs, out=folder, progress=True, **PRETRAINING,
        )  # fmt: skip
        if done.status != "finished":
            raise moca.MocaError(f"the encoder was not trained: {done.message}")
        print(f"encoder: {len(known)} classes, {done.final_accuracy:.1%} on their test images", flush=True)
    return folder


def features(data: moca.Dataset, encoder: Path, options: argparse.Namespace) -> None:
    """Write the encoder's features of the classes that it has not seen, unless the file exists."""
    place = features_of(encoder)
    if place.exists():
        return
    begun, (_, others) = time.perf_counter(), halves(len(data.classes))
    choice = choice_of(parts.ENCODERS, f"pretrained:weights={weights_of(encoder)}")
    frozen = Frozen(choice, data.shape, data.protocol, pick_device(options.device))
    found = {}
    for name, split, most in (("train", data.train, options.images_per_class), ("test", data.test, None)):
        images, labels = Samples(split.images, split.labels).of(others, most)
        found |= {f"{name}_x": frozen(images).flatten(1).numpy(), f"{name}_y": np.array(labels)}
    np.savez(part := place.with_suffix(".part.npz"), **found)
    part.replace(place)
    print(f"features: {len(found['train_y'])} images, {time.perf_counter() - begun:.0f} s", flush=True)


def weights_of(encoder: Path) -> Path:
    """The file with the encoder's weights."""
    return encoder / "model.safetensors"


def features_of(encoder: Path) -> Path:
    """The file with the encoder's features."""
    return encoder / "features.npz"


def arriving(setting: Setting, encoder: Path | None) -> tuple[Samples, Samples]:
    """All training and test samples of the stream."""
    if encoder is None:
        data = moca.load(setting.data.partition(",")[0])
        return Samples(data.train.images, data.train.labels), Samples(data.test.images, data.test.labels)
    with np.load(features_of(encoder)) as file:
        found = {name: torch.from_numpy(file[name]) for name in file.files}
    return Samples(found["train_x"], found["train_y"]), Samples(found["test_x"], found["test_y"])


def through(setting: Setting, encoder: Path | None, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run one method through all months; one row per month."""
    train, test = arriving(setting, encoder)
    if options.validation:
        train, test = train.split()
    order = np.random.default_rng(setting.seed).permutation(train.y.unique().numpy()).tolist()
    each, most, joint = len(order) // setting.months, options.images_per_class, setting.method == "joint"

    def fresh() -> moca.ContinualClassifier:
        given = method_of(setting.method) | ({} if setting.method in WITHOUT_MEMORY else {"memory": setting.memory})
        chosen = {"encoder": options.encoder, "epochs": options.epochs, "device": options.device, "seed": setting.seed}
        return moca.ContinualClassifier(**given, **chosen)

    model, rows = fresh(), []
    for month in range(1, setting.months + 1):
        if joint and month not in options.joint_after:
            continue
        old, new = order[: each * (month - 1)], order[each * (month - 1) : each * month]
        begun = time.perf_counter()
        if joint:
            model = fresh()
        model.learn(*train.of(old + new if joint else new, most))
        seconds = time.perf_counter() - begun
        x, answers = test.of(old + new)
        right, known = model.predict(x) == np.array(answers), np.isin(answers, old)
        shares = {"old": right[known], "new": right[~known], "all": right}
        accuracies = {name: f"{100 * some.mean():.2f}" if len(some) else "" for name, some in shares.items()}
        facts = {"month": month, "classes": len(old + new), "seconds": f"{seconds:.1f}", "device": measured_on(options)}
        rows.append(asdict(setting) | facts | accuracies)
        print(*setting.key[-3:], f"month {month}:", *accuracies.values(), f"{seconds:.1f} s", flush=True)
    return rows


def method_of(name: str) -> dict[str, Any]:
    """The classifier's arguments for a method."""
    learner, _, perturb = name.partition("+")
    return METHODS.get(name, {"learner": learner, "perturb": perturb or "none"})


def measured_on(options: argparse.Namespace) -> str:
    """The hardware, and how many methods shared it."""
    chosen = pick_device(options.device)
    cpu = f"CPU, {torch.get_num_threads()} threads"
    name = torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else cpu
    return f"{name}, {options.jobs} at a time" if options.jobs > 1 else name


def settings(data: moca.Dataset, options: argparse.Namespace) -> Iterator[Setting]:
    """All requested settings, the slowest first."""
    name = data.name + ", training images held out" * options.validation
    frozen = (options.frozen_encoder, str(options.frozen_epochs)) if options.frozen else ("", "")
    schedule = own_recipe(data, pick_device(options.device).type)["schedule"]
    for method in sorted(options.only, key=lambda one: one != "joint"):
        for seed in options.seeds:
            for memory in [0] if method in WITHOUT_MEMORY else options.memory:
                yield Setting(
                    name, *frozen, str(options.images_per_class or "all"), options.encoder or "auto",
                    str(options.epochs or "auto"), schedule, options.months, method, memory, seed,
                )  # fmt: skip


def rows_of(file: Path) -> list[dict[str, str]]:
    """The rows that were written before."""
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    if rows and tuple(rows[0]) != COLUMNS:
        raise SystemExit(f"months: '{file}' was written with other columns; choose another with --out")
    return rows


def keep(rows: list[dict[str, Any]], file: Path) -> None:
    """Append a method's rows, and write the table again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = not file.exists()
    with file.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, COLUMNS)
        if fresh:
            writer.writeheader()
        writer.writerows(rows)
    file.with_suffix(".md").write_text(table(rows_of(file)))


def table(rows: list[dict[str, str]]) -> str:
    """A Markdown table: means over seeds after each month, and at the end on all classes, with standard deviation."""
    text = (
        "# Does it help?\n\nWritten by `benchmarks/months.py`: accuracy in % on test images, or on training images "
        "held out, of the classes known before / the new ones after each month, mean over seeds; in the last column of "
        "all classes, with the standard deviation over seeds. `joint` learns from scratch, and only after the months "
        "that are filled in.\n"
    )
    for about in dict.fromkeys(tuple(row[name] for name in TABLE) for row in rows):
        group = [row for row in rows if tuple(row[name] for name in TABLE) == about]
        data, frozen, frozen_epochs, images, encoder, epochs, schedule, months = about
        columns = [str(month + 1) for month in range(int(months))]
        trained = f", trained for {frozen_epochs} epochs" if frozen_epochs else ""
        features = f" as features of a frozen `{frozen}`{trained}" if frozen else ""
        text += f"\n## {data}{features}, {months} months\n\n"
        how = f"encoder {encoder}, epochs {epochs}, schedule {schedule}"
        text += f"Images of a class: {images}; {how}; {group[0]['device']}.\n\n"
        text += f"| method | memory | seeds | {' | '.join(columns)} | all at the end |\n{'|---' * (int(months) + 4)}|\n"
        for memory, method in sorted({(int(row["memory"]), row["method"]) for row in group}, key=in_order):
            found = [row for row in group if row["method"] == method and int(row["memory"]) == memory]
            cells = [cell([row for row in found if row["month"] == month]) for month in columns]
            last = [float(row["all"]) for row in found if row["month"] == months]
            spread = f" ± {stdev(last):.1f}" if len(last) > 1 else ""
            end = f"{mean(last):.1f}{spread}" if last else ""
            text += f"| `{method}` | {memory or ''} | {len(last)} | {' | '.join(cells)} | {end} |\n"
    return text


def in_order(kind: tuple[int, str]) -> tuple[int, int, str]:
    """Sort key: by memory, then in the order of METHODS."""
    memory, method = kind
    return memory, list(METHODS).index(method) if method in METHODS else len(METHODS), method


def cell(rows: list[dict[str, str]]) -> str:
    """Mean accuracies as `old / new`, without those that are missing."""
    shares = ([float(row[name]) for row in rows if row[name]] for name in ("old", "new"))
    return " / ".join(f"{mean(share):.1f}" for share in shares if share)


def main() -> None:
    """Run all requested settings that have no rows yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", default=list(METHODS), help="any of " + ", ".join(METHODS) + ", or LEARNER+PERTURBATION"
    )
    parser.add_argument("--validation", action="store_true", help="test on held-out training images")
    parser.add_argument("--memory", nargs="+", type=int, default=[500, 2000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--months", type=int, default=10)
    parser.add_argument("--joint-after", nargs="+", type=int, default=[1, 5, 10], help="months")
    parser.add_argument("--images-per-class", type=int, help="[default: all]")
    parser.add_argument("--data", help="[default: cifar100; with --frozen tinyimagenet]")
    parser.add_argument("--encoder", help="encoder to train [default: the classifier's own choice]")
    parser.add_argument("--epochs", type=int, help="[default: the classifier's own choice]")
    parser.add_argument("--frozen", action="store_true", help="train on features of a frozen encoder")
    parser.add_argument("--frozen-encoder", default="resnet18:width=32")
    parser.add_argument("--frozen-epochs", type=int, default=30, help="epochs that it is trained for before")
    parser.add_argument("--encoder-only", action="store_true", help="train the encoder to be frozen, and stop")
    parser.add_argument("--jobs", type=int, default=1, help="methods at a time, each in its own process")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("results/months.csv"))
    parser.add_argument("--work", type=Path, default=Path("runs/months"), help="folder for the encoder")
    options = parser.parse_args()
    options.frozen |= options.encoder_only
    try:
        data = moca.load(options.data or ("tinyimagenet" if options.frozen else "cifar100"))
        encoder = trained_encoder(data, options) if options.frozen else None
    except moca.MocaError as error:
        raise SystemExit(f"months: {error}") from None
    if options.encoder_only:
        return
    if encoder is not None:
        features(data, encoder, options)
    known, failed = {tuple(row[name] for name in KEY) for row in rows_of(options.out)}, []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        left = [setting for setting in settings(data, options) if setting.key not in known]
        for future in as_completed([pool.submit(through, setting, encoder, options) for setting in left]):
            if error := future.exception():  # the others still count
                failed.append(error)
            else:
                keep(future.result(), options.out)
    if failed:
        raise SystemExit(f"months: {failed[0]}") if isinstance(failed[0], moca.MocaError) else failed[0]


if __name__ == "__main__":
    main()
