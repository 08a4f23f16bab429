"""Exact mean and standard deviation of the channels of many images, added in blocks."""

import numpy as np

from moca.data.source import Pixels

Channels = tuple[float, ...]


class Moments:
    """A histogram of the byte values in each channel of images (n, height, width, channels)."""

    def __init__(self, channels: int) -> None:
        self.counts = np.zeros((channels, 256), np.int64)

    def add(self, images: Pixels) -> None:
        """Add images."""
        pixels = images.reshape(-1, len(self.counts))
        for channel, counts in enumerate(self.counts):
            counts += np.bincount(pixels[:, channel], minlength=256)

    def mean_and_std(self) -> tuple[Channels, Channels]:
        """Mean and standard deviation of each channel, for pixel values from 0 to 1."""
        values, pixels = np.arange(256), self.counts[0].sum()
        mean = self.counts @ values / pixels / 255
        std = np.sqrt(np.maximum(self.counts @ values**2 / pixels / 255**2 - mean**2, 0))
        return tuple(mean.tolist()), tuple(std.tolist())
