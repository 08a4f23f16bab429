"""The replay memory and its policies for storing and drawing samples."""

from moca.memory.balanced import Balanced
from moca.memory.even import Even
from moca.memory.memory import Draw, Memory, Store
from moca.memory.past import Past
from moca.memory.reservoir import Reservoir
from moca.memory.uniform import Uniform

__all__ = ["Balanced", "Draw", "Even", "Memory", "Past", "Reservoir", "Store", "Uniform"]
