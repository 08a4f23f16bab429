"""One thread: on a small machine with busy cores, tiny torch operations crawl on more."""

import errno
import gc
import os
import signal
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")  # some machines name instructions that they refuse to do
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # the few tests of several threads must not spin while they wait
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script: tests send it themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis
import pytest
import torch

from moca.data import Dataset, Protocol, Split

collect_ignore = [] if find_spec("fastapi") else ["serve"]  # where moca is installed without that extra
torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton
# How long an example takes depends on who else uses the machine.
hypothesis.settings.register_profile("moca", deadline=None)
hypothesis.settings.load_profile("moca")
gc.disable()  # until all tests are collected: nothing that is made until then can go


def pytest_collection_finish():
    """What thousands of tests and their imports have made stays to the end: no collection of garbage looks at it."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_unconfigure():
    """Libraries that look for leaks as the process ends find none."""
    gc.unfreeze()


@pytest.fixture
def full_disk(monkeypatch):
    """Once called with a part of a name, the disk has room for no more than a byte of texts in files so named."""

    def full(name):
        def write_text(path, text, *given, **options):
            if name not in path.name:
                return original(path, text, *given, **options)
            path.write_bytes(text.encode()[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        original = Path.write_text
        monkeypatch.setattr(Path, "write_text", write_text)

    return full


@pytest.fixture(scope="session")
def make_dataset():
    """A small data set made by hand: `counts[c]` training images of class c, each different from all others."""

    def make(counts=(8, 8, 8, 8), test_counts=None, channels=1, side=4, **protocol):
        generator = torch.Generator().manual_seed(sum(counts) + len(counts))

        def split(sizes):
            labels = torch.cat([torch.full((n,), c) for c, n in enumerate(sizes)])
            labels = labels[torch.randperm(len(labels), generator=generator)]
            noise = torch.randint(0, 120, (len(labels), channels, side, side), generator=generator)
            images = (noise + 30 * (labels % 4).view(-1, 1, 1, 1)).to(torch.uint8)
            return Split(images, labels)

        protocol = {"mean": (0.3,) * channels, "std": (0.25,) * channels, "recipe": {"model": "mlp"}} | protocol
        names = tuple(f"class {c}" for c in range(len(counts)))
        return Dataset("toy", split(counts), split(test_counts or [3] * len(counts)), names, Protocol(**protocol))

    return make
