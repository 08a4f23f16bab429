"""The replay memory: how to store, how to draw."""

import torch

from moca.memory.memory import Memory
from moca.memory.reservoir import Reservoir
from moca.memory.uniform import Uniform
from moca.random import Random
from moca.settings import memory as settings

__all__ = ["Memory", "Reservoir", "Uniform", "build_memory"]


def build_memory(choice: settings.Memory, classes: int, offered: int, seed: int, device: torch.device) -> Memory:
    """The memory that the settings ask for, with no more slots than samples will be offered."""
    size = min(choice.size * (classes if choice.per == "class" else 1), offered)
    store = Reservoir(size, Random(seed, "memory/store", device))
    return Memory(size, store, Uniform(Random(seed, "memory/draw", device)))
