"""Contact sheets: some images of every class, grouped by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont, ImageOps
from PIL.PngImagePlugin import PngInfo

from moca.atomic import whole, writing
from moca.data.in_memory import Dataset, Split
from moca.data.loading import load
from moca.data.protocol import deal
from moca.data.source import Pixels
from moca.errors import MocaError
from moca.overwriting import PNG, replaceable

_CELL, _GAP, _LABEL, _LINE = 40, 2, 130, 16
PER_CLASS = 10
"""Default number of images per class on a sheet."""


@dataclass(frozen=True)
class Shown:
    """What a sheet shows: the class numbers of each task, and the number of images of each class."""

    path: Path
    dataset: Dataset
    tasks: tuple[tuple[int, ...], ...]
    train: tuple[int, ...]
    test: tuple[int, ...]


def show(
    name: str | Path | Dataset,
    out: Path | str,
    *,
    per_class: int = PER_CLASS,
    tasks: int | None = None,
    protocol: str | None = None,
    data_dir: Path | str | None = None,
) -> Shown:
    """Write a PNG with `per_class` training images of each class, in the order and tasks of a protocol.

    `tasks` splits the classes into that many tasks instead; by default five, or fewer if a task would have one class.
    """
    if per_class < 1:
        raise MocaError(f"a sheet shows at least 1 image of each class (per_class={per_class})")
    dataset = name if isinstance(name, Dataset) else load(name, data_dir=data_dir)
    dataset = dataset.using(protocol) if protocol else dataset
    order = dataset.order(dataset.protocol.class_order)
    groups = deal(order, dataset.protocol.tasks_for(len(order)) if tasks is None else tasks, dataset.name)
    tasks_shown = {
        f"task {number}": [(dataset.classes[c], _picked(dataset.train, c, per_class)) for c in group]
        for number, group in enumerate(groups, 1)
    }
    target = write_sheet(tasks_shown, Path(out), per_class)
    train, test = (
        tuple(torch.bincount(split.labels, minlength=len(dataset.classes)).tolist())
        for split in (dataset.train, dataset.test)
    )
    return Shown(target, dataset, groups, train, test)


def write_sheet(
    groups: Mapping[str, Sequence[tuple[str, list[Pixels]]]], out: Path, per_class: int = PER_CLASS
) -> Path:
    """Write a PNG with one row of images per class, in groups with titles; an earlier one is replaced."""
    about = PngInfo()
    about.add_text("Software", "moca")
    replaceable(out, PNG)
    with writing(f"'{out}'", "choose another place for the sheet"), whole(out) as part:
        _sheet(groups, per_class).save(part, "PNG", pnginfo=about)
    return out


def _picked(split: Split, label: int, count: int) -> list[Pixels]:
    """Images at even distances within the class, each (height, width, channels)."""
    members = (split.labels == label).nonzero().squeeze(1)
    chosen = members[torch.linspace(0, len(members) - 1, min(count, len(members))).long()]
    return [split.images[i].permute(1, 2, 0).numpy() for i in chosen.tolist()]


def _sheet(groups: Mapping[str, Sequence[tuple[str, list[Pixels]]]], per_class: int) -> Image.Image:
    """Draw the groups one below the other, in as many columns as make the sheet about square."""
    tasks = list(groups.values())
    step = _CELL + _GAP
    width = _LABEL + per_class * step + 2 * _GAP
    heights = [_LINE + len(task) * step for task in tasks]
    columns = max(1, min(len(tasks), round((sum(heights) / width) ** 0.5)))
    room = max(max(heights), -(-sum(heights) // columns))
    places, x, y = [], 0, 0
    for height in heights:
        if y and y + height > room + step:
            x, y = x + width, 0
        places.append((x, y))
        y += height
    deepest = max(top + height for (_, top), height in zip(places, heights, strict=True))
    sheet = Image.new("RGB", (x + width, deepest + _GAP), "white")
    draw, font = ImageDraw.Draw(sheet), _font()
    for title, task, (left, top) in zip(groups, tasks, places, strict=True):
        draw.text((left + _GAP, top + 2), title, fill="black", font=font)
        for row, (name, images) in enumerate(task):
            at = top + _LINE + row * step
            draw.text((left + _GAP, at + _CELL // 3), name[:20], fill="black", font=font)
            for column, image in enumerate(images[:per_class]):
                sheet.paste(_thumbnail(image), (left + _LABEL + column * step, at))
    return sheet


def _font() -> ImageFont.FreeTypeFont:
    """A font from matplotlib, which has Latin, Greek and Cyrillic letters; Pillow's own has only ASCII."""
    from matplotlib import get_data_path  # imported late: slow to load

    return ImageFont.truetype(Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), 10)


def _thumbnail(image: Pixels) -> Image.Image:
    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).convert("RGB")
    small = max(picture.size) <= _CELL
    method = Image.Resampling.NEAREST if small else Image.Resampling.BOX
    return ImageOps.pad(picture, (_CELL, _CELL), method, "white")
