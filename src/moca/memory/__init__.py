"""The replay memory: how to store, how to draw."""

from moca.memory.memory import Draw, Memory, Store
from moca.memory.past import Past
from moca.memory.reservoir import Reservoir
from moca.memory.uniform import Uniform

__all__ = ["Draw", "Memory", "Past", "Reservoir", "Store", "Uniform"]
