"""How fast a training step is: each method in every execution mode, against a twin of the official code.

record = Record(Bench(methods=("er", "er+wap"), device="cpu"), out=Path("bench.json"))
for cell in record.measure():
    print(record.entry(cell))
"""

from moca.bench.cells import Cell, Configuration
from moca.bench.record import Record
from moca.settings import Bench

__all__ = ["Bench", "Cell", "Configuration", "Record"]
