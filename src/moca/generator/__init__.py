"""A small class-conditional generator of a data set's images, to turn features back into pictures."""

from moca.generator.store import generator_of
from moca.generator.training import Pair

__all__ = ["Pair", "generator_of"]
