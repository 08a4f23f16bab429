"""How fast `moca serve` answers, with one client and with many at a time, and whether its memory grows.

    OMP_NUM_THREADS=1 python benchmarks/serving.py --minutes 5 --out results/serving.json

A server process and this client share the machine. The model is the one that `moca learn` creates for 32-pixel images
on a CPU (ResNet-18 of width 8), with ten classes; a request is one PNG of 32x32x3. Accuracy does not matter here.
"""

import argparse
import asyncio
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

from moca import ContinualClassifier
from moca.environment import hardware, versions

ENCODER = "resnet18:width=8"
ALONE, ROUNDS = 100, 8
"""Consecutive requests of one client, and rounds of them: other jobs on the machine can only slow them down."""
BOUNDARY = "picture"


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.2, help="how long to send requests with many clients")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        _make(model)
        with _Server(model) as server:
            asyncio.run(_ask(server, 4, seconds=60, most=40))  # to warm up its threads
            before = server.processor_seconds
            alone = [asyncio.run(_ask(server, 1, seconds=600, most=ALONE)) for _ in range(ROUNDS)]
            cost = (server.processor_seconds - before) / (ALONE * ROUNDS)
            together = asyncio.run(_ask(server, options.clients, seconds=60 * options.minutes))
    found = {
        "about": f"moca serve, one 32x32x3 PNG a request, {ENCODER}, client and server on the same machine",
        "command": " ".join(["python", *sys.argv]),
        "hardware": hardware(torch.device("cpu")),
        "versions": versions(),
        "one client": _summary([one for took, _, _ in alone for one in took], sum(errors for _, errors, _ in alone))
        | {"median_ms_of_the_quietest_round": round(min(statistics.median(took) for took, _, _ in alone), 1)}
        | {"processor_ms_of_the_server_a_request": round(1000 * cost, 2)},
        f"{options.clients} clients": _summary(together[0], together[1])
        | {"minutes": options.minutes, "requests_a_second": round(len(together[0]) / (60 * options.minutes), 1)}
        | _growth(together[2]),
    }
    print(json.dumps(found, indent=2))
    if options.out:
        options.out.write_text(json.dumps(found, indent=2) + "\n")


def _make(path: Path) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (200, 32, 32, 3), dtype=np.uint8)
    names = [f"class {n % 10}" for n in range(len(images))]
    ContinualClassifier(encoder=ENCODER, epochs=1, device="cpu").learn(images, names).save(path)


class _Server:
    """`moca serve` in its own process."""

    def __init__(self, model: Path) -> None:
        words = [sys.executable, "-m", "moca", "serve", str(model), "--port", "0", "--rate", "0", "--device", "cpu"]
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
        )

    def __enter__(self) -> "_Server":
        assert self._process.stdout
        self.url = re.findall(r"http://\S+", self._process.stdout.readline())[0]
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    @property
    def processor_seconds(self) -> float:
        """CPU seconds of the process so far, not counting the time it waited for other jobs."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        """Resident memory of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


Answers = tuple[list[float], int, list[float]]
"""Milliseconds of each request, the number of errors, and the server's megabytes over time."""


async def _ask(server: _Server, clients: int, seconds: float, most: int | None = None) -> Answers:
    """Send requests from several clients, each of which sends the next one as soon as it is answered."""
    took: list[float] = []
    errors, memory, end = 0, list[float](), time.monotonic() + seconds

    async def ask(client: httpx.AsyncClient, body: bytes) -> None:
        nonlocal errors
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        while time.monotonic() < end and (most is None or len(took) < most):
            start = time.perf_counter()
            try:
                answer = await client.post("/api/predict", content=body, headers=headers)
                errors += answer.status_code != 200
            except httpx.HTTPError:
                errors += 1
            took.append(1000 * (time.perf_counter() - start))

    async def look() -> None:
        while True:
            memory.append(server.megabytes)
            await asyncio.sleep(max(0.5, seconds / 60))

    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        looking = asyncio.create_task(look())
        await asyncio.gather(*(ask(client, _body(n)) for n in range(clients)))
        looking.cancel()
    return took, errors, memory


def _body(seed: int) -> bytes:
    file = io.BytesIO()
    image = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(image).save(file, "PNG")
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="images"; filename="{seed}.png"\r\n\r\n'
    return head.encode() + file.getvalue() + f"\r\n--{BOUNDARY}--\r\n".encode()


def _summary(took: list[float], errors: int) -> dict[str, Any]:
    twentieths = statistics.quantiles(took, n=20)
    names = {"median_ms": statistics.median(took), "p95_ms": twentieths[-1], "worst_ms": max(took)}
    return {"requests": len(took), "errors": errors} | {name: round(value, 1) for name, value in names.items()}


def _growth(memory: list[float]) -> dict[str, Any]:
    """Mean memory in the second and in the last fifth of the time; in the first, the threads' pools still fill."""
    fifth = max(1, len(memory) // 5)
    early, late = statistics.mean(memory[fifth : 2 * fifth]), statistics.mean(memory[-fifth:])
    return {"memory_mb_early": round(early, 1), "memory_mb_late": round(late, 1)}


if __name__ == "__main__":
    main()
