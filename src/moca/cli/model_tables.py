"""Tables and JSON of `moca learn`, `moca predict` and `moca model show`."""

from __future__ import annotations

import csv
import json
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from moca.cli.show import console, in_bytes, say

if TYPE_CHECKING:
    from moca.classifier.facts import Facts
    from moca.classifier.record import Lesson
    from moca.classifier.tested import Tested

_CONFUSED = 5
"""How many confusions a test names."""


def show_lesson(lesson: Lesson, model: Path) -> None:
    """Print what was learnt, the accuracies before and after, and warnings."""
    from moca.classifier.summary import (
        basis_told,
        copies_told,
        cost_told,
        emptied_told,
        forgotten_told,
        learnt_from,
        left_out_told,
        otherwise_told,
        passed_over_told,
        twice_told,
    )
    from moca.wording import counted

    told = [tell(lesson) for tell in (otherwise_told, twice_told, copies_told, forgotten_told)]
    for warning in filter(None, (left_out_told(lesson.left_out), *told)):
        say(warning, "red")
    if not lesson.images:
        known = "the only image was" if lesson.known == 1 else f"all {lesson.known} images were"
        if lesson.forgotten:
            known = counted(lesson.known, "other image was", "other images were")
        say(f"Nothing new{f': {known} learnt before' if lesson.known else ''}. Model: {model}")
        return
    left = f"; {lesson.known} {'was' if lesson.known == 1 else 'were'} learnt before" if lesson.known else ""
    learnt = f"{learnt_from(lesson)}, {lesson.held} held out"
    if lesson.taught_before:
        say(f"Not taught again: version {lesson.version} has learnt {learnt}, already.")
    else:
        say(f"Learnt {learnt}{left}.")
    table = _table("accuracy on held-out images", "before", "after")
    apart = None if _percent(lesson.old_apart) == _percent(lesson.old_after) else lesson.old_apart
    for name, before, after in (
        ("classes known before", lesson.old_before, lesson.old_after),
        ("the same, among themselves", lesson.old_before, apart),
        ("classes of this lesson", None, lesson.new_after),
    ):
        if after is not None:
            table.add_row(name, _percent(before), _percent(after))
    alike = _percent(lesson.each_alike)
    if alike not in (_percent(lesson.old_after), _percent(lesson.new_after)):
        table.add_row("mean over all classes", "", alike)
    if table.row_count:
        console.print(table)
    if basis := basis_told(lesson):
        say(basis, "dim")
    passed_over = passed_over_told(lesson, lambda number: command("rollback", model, "--to", number))
    if lesson.used:
        say(f"Version {lesson.version} of {model} is in use.")
        cost = cost_told(lesson, command("rollback", model))
        emptied = emptied_told(lesson, lambda name: command("forget", model, name))
        for warning in filter(None, (cost, emptied, passed_over)):
            say(warning, "red")
        return
    say(
        f"Version {lesson.version} forgot too much and is kept, but not in use; version {lesson.in_use} still is. To "
        f"use version {lesson.version} nevertheless: {command('rollback', model, '--to', lesson.version)}",
        "red",
    )
    if passed_over:
        say(passed_over, "red")


def show_predictions(
    rows: Sequence[tuple[str, Sequence[tuple[Any, float]]]], unreadable: Sequence[tuple[str, str]], format: str
) -> None:
    """Print the classes of each image with their shares; JSON and CSV also list the unreadable images, and why."""
    if format == "json":
        entries: list[dict[str, Any]] = [
            {"image": file, "classes": [{"class": name, "share": round(share, 4)} for name, share in predicted]}
            for file, predicted in rows
        ]
        entries += [{"image": file, "classes": [], "error": why} for file, why in unreadable]
        write_json(entries)
    elif format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["image", "class", "share", "error"])
        writer.writerows([file, name, f"{share:.4f}", ""] for file, predicted in rows for name, share in predicted)
        writer.writerows([file, "", "", why] for file, why in unreadable)
    elif rows:
        table = _table("image", "class", "share")
        for file, predicted in rows:
            for place, (name, share) in enumerate(predicted):
                table.add_row(Text("" if place else file, overflow="fold"), Text(str(name)), _percent(share))
        console.print(table)


def write_test(model: Path, version: int | None, result: Tested) -> None:
    """Print the result of a test as JSON."""
    facts = result._asdict() | {
        "classes": [{"class": name, "correct": right, "images": held} for name, right, held in result.classes],
        "confused": [{"class": name, "as": other, "images": count} for name, other, count in result.confused],
        "unknown": [{"class": name, "images": count} for name, count in result.unknown.items()],
    }
    del facts["unknown_told"]
    write_json({"model": str(model), "version": version, "accuracy": result.correct / result.images} | facts)


def show_test(model: Path, version: int | None, result: Tested) -> None:
    """Print the accuracy on test images, of each class, and the most frequent confusions."""
    from moca.classifier.summary import left_out_told
    from moca.wording import counted

    which = model if version is None else f"Version {version} of {model}"
    good = f"{result.correct} of {counted(result.images, 'image is', 'images are')} classified correctly"
    say(f"{which}: {good} ({_percent(result.correct / result.images)}).")
    table = _table("class", "correct", "")
    for name, right, held in result.classes:
        table.add_row(Text(str(name)), f"{right} of {held}", _percent(right / held))
    console.print(table)
    if result.confused:
        some = ", ".join(f"{name} for {other} ({count})" for name, other, count in result.confused[:_CONFUSED])
        say(f"Most often taken: {some}.")
    learnt = f"{counted(result.learnt, 'image was', 'images were')} learnt or held out by this model and test little."
    warnings = result.unknown_told and f"{result.unknown_told}.", left_out_told(result.left_out)
    for warning in filter(None, (*warnings, learnt * bool(result.learnt))):
        say(warning, "red")


def write_facts(model: Path, facts: Facts) -> None:
    """Print what is known of a model as JSON."""
    classes = [
        {"class": name, "version": version, "in_memory": in_memory, "correct": correct, "held": held}
        for name, version, in_memory, correct, held in facts.classes
    ]
    versions = [past._asdict() | {"lesson": past.lesson.record()} for past in facts.versions]
    write_json({"model": str(model)} | facts._asdict() | {"classes": classes, "versions": versions})


def show_model(model: Path, facts: Facts, keep: int) -> None:
    """Print the version and how good it is, the classes, and all versions; if there are more than `keep`, also how to
    delete some."""
    channels, height, width = facts.shape
    right, held = sum(one.correct for one in facts.classes), sum(one.held for one in facts.classes)
    if facts.version is not None:
        share = _percent(right / held if held else None)
        good = f": {right} of {held} held-out images are classified correctly ({share})" if held else ""
        say(f"Version {facts.version} is {'' if facts.version == facts.in_use else 'not '}in use{good}.")
    network = facts.encoder if facts.frozen is None else f"{facts.encoder} on features of {facts.frozen}, frozen"
    kind, samples = "images", f"{width}x{height}x{channels}"
    if facts.vectors:
        kind, samples = "vectors", f"{channels} numbers"
    trained = f"{facts.optimiser} with learning rate {facts.lr:g}"
    say(f"{model}: {facts.learner} with {facts.perturb}, {network}, {kind} of {samples}, {trained}")
    table = _table("class", "learnt in version", f"{kind} in memory", *["held out, correct"] * bool(held))
    for one in facts.classes:
        correct = f"{one.correct} of {one.held}" if one.held else "none"
        unknown = "" if facts.version is None else "unknown" if facts.damaged else "deleted"
        row = (unknown if one.version is None else str(one.version), str(one.in_memory), correct)
        table.add_row(Text(str(one.name)), *row[: len(table.columns) - 1])
    console.print(table)
    if facts.versions:
        table = _table("version", "when", "what", "images", "old classes", "new")
        table.columns[1].no_wrap = table.columns[4].no_wrap = True
        table.columns[2].justify, table.columns[2].overflow = "left", "fold"
        for past in facts.versions:
            lesson, mark = past.lesson, " *" * (past.version == facts.in_use)
            before, after, new = map(_percent, (lesson.old_before, lesson.old_after, lesson.new_after))
            when = datetime.fromisoformat(past.when).astimezone()
            table.add_row(f"{past.version}{mark}", f"{when:%Y-%m-%d %H:%M}", Text(past.what), str(lesson.images or ""),
                          f"{before[:-2]} → {after}" if before else "", new)  # fmt: skip
        console.print(table)
        console.print(Text("* in use. Accuracies are on held-out images; of old classes before → after.", "dim"))
        room = in_bytes(sum(past.bytes for past in facts.versions))
        old = len(facts.versions) > keep
        say(f"All versions: {room}." + f" To delete old ones: {command('prune', model)}" * old, "dim")
    for line in facts.damaged:
        say(f"Left out: {line}", "red")


def command(*words: object) -> str:
    """A `moca model` command as it can be typed."""
    return shlex.join(["moca", "model", *map(str, words)])


def write_json(content: Any) -> None:
    """Print as JSON on stdout."""
    json.dump(content, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def _percent(share: Any) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _table(*head: str) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    return table
