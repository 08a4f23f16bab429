"""A small class-conditional generator of a data set's images, used to turn features back into images."""

from moca.generator.store import generator_of
from moca.generator.training import Pair

__all__ = ["Pair", "generator_of"]
