"""Decoding image files in threads, ahead of the one that stores the pixels.

Pillow lets go of Python's lock while it decodes, scales and reads. Small images are mostly Python, so they gain little
from several threads, and with many of them they lose (measured in benchmarks/data_import.py).
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
"""Images that a thread takes at once: of 224 pixels a side, they still fit one block."""
_MOST_THREADS = 4
"""Eight that wait for Python's lock were slower than one with images of 32 pixels a side."""


def encoded_part(
    chunks: Callable[[], Iterable[Sequence[Item]]],
    labels: NDArray[np.int64],
    name: Callable[[int], str],
    options: Options,
) -> Part:
    """A split held as image files."""
    workers = options.workers or min(cores(), _MOST_THREADS)
    return Part(labels, lambda colour: _decoded(chunks(), options.size, colour, workers), name)


def file_chunks(paths: Sequence[str]) -> Callable[[], Iterator[Sequence[str]]]:
    """Paths, a chunk at a time."""
    return lambda: (paths[i : i + CHUNK] for i in range(0, len(paths), CHUNK))


def _decoded(chunks: Iterable[Sequence[Item]], size: int | None, colour: bool, workers: int) -> Iterator[Block]:
    """All blocks in order; no more of them wait in memory than there are chunks ahead."""
    start, stopped = 0, Event()
    ahead: deque[tuple[Iterator[Block], Future[Block | None]]] = deque()
    pool = ThreadPoolExecutor(workers, "decode")

    def first() -> Iterator[Block]:
        blocks, coming = ahead.popleft()
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block

    with warnings.catch_warnings():  # here and not in a thread: filters belong to the whole process
        warnings.simplefilter("ignore")
        try:
            for chunk in chunks:
                going = takewhile(lambda _: not stopped.is_set(), chunk)
                blocks = decode_chunk(going, start, size, colour)
                ahead.append((blocks, pool.submit(next, blocks, None)))
                start += len(chunk)
                if len(ahead) > 2 * workers:
                    yield from first()
            while ahead:
                yield from first()
        finally:
            stopped.set()  # Ctrl-C waits for one image, not for a chunk
            pool.shutdown(cancel_futures=True)
