"""A network as it is tested, whatever it was doing."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Inside, it is in evaluation mode; afterwards in the mode that it was in."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)
