"""Replay of the past: samples of earlier tasks before any other."""

from torch import Tensor

from moca.memory.memory import Memory
from moca.memory.uniform import Uniform


class Past(Uniform):
    """Uniform among the samples of old classes; others come only where those are too few, and `Batch.old` tells."""

    def eligible(self, memory: Memory) -> Tensor:
        """Rows of old classes."""
        old: Tensor = self.learner.is_old(memory.fields["y"][: memory.size])
        return old
