"""Decode image files in threads, ahead of the thread that stores the pixels.

Pillow releases the GIL while it decodes, scales and reads. Small images spend most of their time in Python, so they
gain little from a few threads and become slower with many (measured in benchmarks/data_import.py).
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile
from threading import Event

import numpy as np
from numpy.typing import NDArray

from moca.cores import cores
from moca.data.decode import Item, decode_chunk
from moca.data.source import Block, Options, Part

CHUNK = 32
"""Images that a thread takes at once; at 224 pixels a side, they still fit in one block."""
_MOST_THREADS = 4
"""Eight threads competing for the GIL were slower than one, with images of 32 pixels a side."""


def encoded_part(
    chunks: Callable[[], Iterable[Sequence[Item]]],
    labels: NDArray[np.int64],
    name: Callable[[int], str],
    options: Options,
) -> Part:
    """A split whose images are encoded files, decoded in threads."""
    workers = options.workers or min(cores(), _MOST_THREADS)
    return Part(labels, lambda colour: _decoded(chunks(), options.size, colour, workers), name)


def file_chunks(paths: Sequence[str]) -> Callable[[], Iterator[Sequence[str]]]:
    """A function that yields the paths in chunks."""
    return lambda: (paths[i : i + CHUNK] for i in range(0, len(paths), CHUNK))


def _decoded(chunks: Iterable[Sequence[Item]], size: int | None, colour: bool, workers: int) -> Iterator[Block]:
    """Yield all blocks in order; at most one block per chunk ahead waits in memory."""
    start, stopped = 0, Event()
    ahead: deque[tuple[Iterator[Block], Future[Block | None]]] = deque()
    pool = ThreadPoolExecutor(workers, "decode")

    def first() -> Iterator[Block]:
        blocks, pending = ahead.popleft()
        while (block := pending.result()) is not None:
            pending = pool.submit(next, blocks, None)
            yield block

    with warnings.catch_warnings():  # here, not in a thread: filters are per process
        warnings.simplefilter("ignore")
        try:
            for chunk in chunks:
                until_stopped = takewhile(lambda _: not stopped.is_set(), chunk)
                blocks = decode_chunk(until_stopped, start, size, colour)
                ahead.append((blocks, pool.submit(next, blocks, None)))
                start += len(chunk)
                if len(ahead) > 2 * workers:
                    yield from first()
            while ahead:
                yield from first()
        finally:
            stopped.set()  # Ctrl-C waits for one image, not for a chunk
            pool.shutdown(cancel_futures=True)
