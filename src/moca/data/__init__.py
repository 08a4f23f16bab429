"""Data sets: adding, storing, checking and loading them.

Names are imported on first use, so that listing or adding data does not have to import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moca.data.adding import Added, add
    from moca.data.from_python import dataset
    from moca.data.in_memory import Dataset, Split
    from moca.data.integrity import Checked, check
    from moca.data.inventory import listing, remove
    from moca.data.loading import load
    from moca.data.protocol import Protocol
    from moca.data.sheet import Shown, show
    from moca.data.store import Store
    from moca.data.transform import Transform

__all__ = [
    "Added",
    "Checked",
    "Dataset",
    "Protocol",
    "Shown",
    "Split",
    "Store",
    "Transform",
    "add",
    "check",
    "dataset",
    "listing",
    "load",
    "remove",
    "show",
]

_HOMES = {
    "Added": "adding",
    "Checked": "integrity",
    "Dataset": "in_memory",
    "Protocol": "protocol",
    "Shown": "sheet",
    "Split": "in_memory",
    "Store": "store",
    "Transform": "transform",
    "add": "adding",
    "check": "integrity",
    "dataset": "from_python",
    "listing": "inventory",
    "load": "loading",
    "remove": "inventory",
    "show": "sheet",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
