"""Samples by number, from the device or through pinned memory; the GPU's part left out."""

import pytest
import torch

from moca.data import Split
from moca.engine import feed as feeding
from moca.engine.feed import Feed

SPLIT = Split(torch.arange(40 * 3).view(40, 3, 1, 1).to(torch.uint8), torch.arange(40))


class Event:
    """Whether the copy out of a slot has been waited for before the slot is filled again."""

    def __init__(self):
        self.pending = False

    def record(self, stream):
        assert not self.pending, "filled again before it was copied"
        assert stream == torch.device("cpu"), "of the device that copies, not of the current one"
        self.pending = True

    def synchronize(self):
        self.pending = False


@pytest.fixture
def streamed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: device)
    slot = feeding._Slot
    monkeypatch.setattr(
        feeding, "_slot", lambda images, batch: slot(torch.empty(batch, *images.shape[1:], dtype=images.dtype), Event())
    )
    feed = Feed(SPLIT, torch.device("cpu"), batch=4)
    feed.resident, feed.slots = False, [feeding._slot(SPLIT.images, 4) for _ in range(feeding._AHEAD)]
    return feed


@pytest.mark.parametrize("count", [1, 4, 6, 37])
def test_streamed_like_resident(streamed, count):
    for turn in range(7):
        index = torch.randperm(40, generator=torch.Generator().manual_seed(turn))[:count]
        images, labels = streamed(index)
        expected, same = Feed(SPLIT, torch.device("cpu"), batch=4)(index)
        assert images.equal(expected)
        assert images.equal(SPLIT.images[index])
        assert labels.equal(same)
        assert labels.equal(index)


def test_off_a_gpu_everything_is_resident():
    assert Feed(SPLIT, torch.device("cpu"), batch=4).resident
