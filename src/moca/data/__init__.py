"""Getting images in.

Names are looked up when first used, so that listing or adding data never waits for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moca.data.adding import Added, add
    from moca.data.dataset import Dataset, Split
    from moca.data.loading import load
    from moca.data.protocol import Protocol
    from moca.data.store import Store
    from moca.data.transform import Transform

__all__ = ["Added", "Dataset", "Protocol", "Split", "Store", "Transform", "add", "load"]

_HOMES = {
    "Added": "adding",
    "Dataset": "dataset",
    "Protocol": "protocol",
    "Split": "dataset",
    "Store": "store",
    "Transform": "transform",
    "add": "adding",
    "load": "loading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
