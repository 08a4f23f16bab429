"""The workload that is timed: a step in the second task of a CIFAR-shaped class-incremental stream, memory full."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from moca.data import Dataset, Protocol, Split
from moca.engine.trainer import Trainer
from moca.settings import Bench, Run, validate
from moca.settings.method import method
from moca.streams import Stream, class_incremental

CLASSES, TASKS = 100, 5
BATCHES = 313
"""Batches per task, as many as with CIFAR-100; here all of them are full."""
MEMORY = 200
CIFAR = Protocol((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), crop_padding=4, flip=True)


@functools.lru_cache(maxsize=1)
def noise_stream(batch: int) -> Stream:
    """Random images of 100 classes in 5 tasks, each of which has `BATCHES` full batches."""
    generator, each = torch.Generator().manual_seed(0), CLASSES // TASKS
    labels = torch.cat([task * each + torch.arange(BATCHES * batch) % each for task in range(TASKS)])

    def split(labels: Tensor) -> Split:
        return Split(torch.randint(0, 256, (len(labels), 3, 32, 32), dtype=torch.uint8, generator=generator), labels)

    names = tuple(f"class {c}" for c in range(CLASSES))
    return class_incremental(Dataset("noise", split(labels), split(torch.arange(CLASSES)), names, CIFAR), TASKS)


def run_settings(bench: Bench, label: str, execution: str, seed: int = 0) -> Run:
    """Settings of the run whose steps are timed; its epochs are so many that it never ends by itself."""
    settings: dict[str, Any] = method(label) | {
        "data": "noise",
        "tasks": TASKS,
        "class_order": "natural",
        "model": f"resnet18:width={bench.width}",
        "memory": max(MEMORY, bench.batch),
        "epochs": 1_000_000,
        "batch": bench.batch,
        "device": bench.device,
        "precision": bench.precision,
        "threads": bench.threads,
        "execution": execution,
        "seed": seed,
    }
    return validate(Run, settings)


def in_second_task(settings: Run, stream: Stream) -> Trainer:
    """A trainer at the start of its second task; its memory was offered all samples of the first task once."""
    trainer = Trainer(settings, stream)
    memory, learner = trainer.learning.memory, trainer.learning.learner
    assert memory is not None
    images, y = trainer.feed(trainer.schedule.current.train.to(trainer.feed.order_device))
    samples = {"image": images, "y": y} | {n: torch.zeros(len(y), CLASSES, device=y.device) for n in learner.keeps}
    if learner.store is None:
        memory.rewrite(**{name: values[: memory.size] for name, values in samples.items()})
    else:
        memory.add(**samples)
    trainer.next_task()
    return trainer
