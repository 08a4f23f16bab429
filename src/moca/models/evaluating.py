"""Temporary evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put the network in evaluation mode inside the block, and restore its mode afterwards."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)
