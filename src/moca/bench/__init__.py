"""How fast a step is: each method in every way to run it, against a twin of the official code in the same process.

record = Record(Bench(methods=("er", "er+wap"), device="cpu"), out=Path("bench.json"))
for cell in record.measure():
    print(record.entry(cell))
"""

from moca.bench.cells import Cell, Configuration
from moca.bench.record import Record
from moca.settings import Bench

__all__ = ["Bench", "Cell", "Configuration", "Record"]
