"""Replay of samples from earlier tasks first."""

from torch import Tensor

from moca.memory.memory import Memory
from moca.memory.uniform import Uniform


class Past(Uniform):
    """Uniform among the samples of old classes; others are drawn only if these are too few, and are marked in
    `Batch.old`."""

    def eligible(self, memory: Memory) -> Tensor:
        """Mask of the rows that hold old classes."""
        old: Tensor = self.learner.is_old(memory.fields["y"][: memory.size])
        return old
