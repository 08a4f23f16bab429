"""Decoding in several processes.

Small images take more Python than decoding, so threads gain nothing (measured in benchmarks/data_import.py). The
processes are plain children that speak over pipes: they need no `if __name__ == "__main__"` in a user's script, do not
copy a parent that has torch loaded, and take a crash of an image library with them without harm.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import IO

import numpy as np
from numpy.typing import NDArray

from moca.data.decode import Item, decode_chunk
from moca.data.source import BLOCK_BYTES, Block, Options, Part

CHUNK = 256
WORTH_SHARING = 4096
"""Images below which starting processes takes longer than it saves."""
_LENGTH = struct.Struct("<Q")


def encoded_part(
    chunks: Callable[[], Iterable[Sequence[Item]]],
    labels: NDArray[np.int64],
    name: Callable[[int], str],
    options: Options,
) -> Part:
    """A split held as image files."""

    def blocks(colour: bool) -> Iterator[Block]:
        workers = options.workers or (_cores() if len(labels) >= WORTH_SHARING else 1)
        return _decoded(chunks(), options.size, colour, workers)

    return Part(labels, blocks, name)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def file_chunks(paths: Sequence[str]) -> Callable[[], Iterator[Sequence[str]]]:
    """Paths, a chunk at a time."""
    return lambda: (paths[i : i + CHUNK] for i in range(0, len(paths), CHUNK))


def _decoded(chunks: Iterable[Sequence[Item]], size: int | None, colour: bool, workers: int) -> Iterator[Block]:
    start = 0
    if workers == 1:
        for chunk in chunks:
            yield from decode_chunk(chunk, start, size, colour)
            start += len(chunk)
        return
    with Decoders(workers, size, colour) as decoders:
        ahead: deque[tuple[Sequence[Item], int, Future[list[Block]]]] = deque()
        most = CHUNK

        def first() -> Iterator[Block]:
            """The answer that is due; what a process left over comes next, and in future it is given less."""
            nonlocal most
            items, start, answer = ahead.popleft()
            blocks = answer.result()
            done = sum(len(block.rows) + len(block.bad) for block in blocks)
            if done < len(items):
                most = max(1, min(most, done))
                rest = items[done:]
                ahead.appendleft((rest, start + done, decoders.submit(rest, start + done)))
            return iter(blocks)

        for chunk in chunks:
            while chunk:
                piece, chunk = chunk[:most], chunk[most:]
                ahead.append((piece, start, decoders.submit(piece, start)))
                start += len(piece)
                while len(ahead) > 2 * workers:
                    yield from first()
        while ahead:
            yield from first()


class Decoders:
    """Some child processes, each with a thread that feeds it."""

    def __init__(self, workers: int, size: int | None, colour: bool) -> None:
        self.settings, self.closed = (size, colour), False
        self.threads = ThreadPoolExecutor(workers)
        self.idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self.children: list[subprocess.Popen[bytes]] = []
        for _ in range(workers):
            self.idle.put(self._start())

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, sys.path))
        child = subprocess.Popen(
            [sys.executable, "-m", "moca.data.decoders"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        self.children.append(child)
        return child

    def submit(self, items: Sequence[Item], start: int) -> Future[list[Block]]:
        """Decode a chunk whose first item is row `start` of its split, as far as fits an answer."""
        return self.threads.submit(self._decode, items, start)

    def _decode(self, items: Sequence[Item], start: int) -> list[Block]:
        child = self.idle.get()
        try:
            assert child.stdin and child.stdout
            _send(child.stdin, pickle.dumps((list(items), start, *self.settings)))
            blocks = list(_blocks(_receive(child.stdout)))
        except (OSError, EOFError, ValueError):
            if self.closed:
                return []
            self.idle.put(self._start())
            if len(items) == 1:
                return [
                    Block(np.empty((0, 0, 0, 3), np.uint8), np.empty(0, np.int64), [(start, "the decoder crashed")])
                ]
            return self._decode(items[: len(items) // 2], start)
        self.idle.put(child)
        return blocks

    def __enter__(self) -> Decoders:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.closed = True
        for child in self.children:
            child.kill()
        self.threads.shutdown(cancel_futures=True)
        for child in self.children:
            child.communicate()


def _send(stream: IO[bytes], *data: bytes | memoryview) -> None:
    views = [memoryview(piece) for piece in data]
    stream.write(_LENGTH.pack(sum(view.nbytes for view in views)))
    for view in views:
        stream.write(view)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    data = stream.read(_LENGTH.unpack(head)[0])
    if len(data) < _LENGTH.unpack(head)[0]:
        raise EOFError
    return data


def _blocks(answer: bytes) -> Iterator[Block]:
    """What a child wrote: a line of JSON, then the pixels. Never a pickle, since it has handled foreign bytes."""
    at = answer.index(b"\n") + 1
    for shape, rows, bad in json.loads(answer[:at]):
        images = np.frombuffer(answer, np.uint8, int(np.prod(shape)), at).reshape(shape)
        at += images.nbytes
        yield Block(images, np.array(rows, np.int64), [(row, reason) for row, reason in bad])


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Decode chunks until there are no more; an answer ends once it holds BLOCK_BYTES, wherever in the chunk."""
    while True:
        try:
            items, start, size, colour = pickle.loads(_receive(source))
        except EOFError:
            return
        blocks: list[Block] = []
        for block in decode_chunk(items, start, size, colour):
            blocks.append(block)
            if sum(b.images.nbytes for b in blocks) > BLOCK_BYTES // 2:
                break
        head = json.dumps([[b.images.shape, b.rows.tolist(), list(b.bad)] for b in blocks]).encode()
        _send(sink, head + b"\n", *(b.images.reshape(-1).data for b in blocks))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
