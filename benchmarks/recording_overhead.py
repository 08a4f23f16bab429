"""Claim: recording everything (record=all) costs under 5 % of the training time of a run.

    python benchmarks/recording_overhead.py --json results/recording_overhead_cpu.json

One run of each setting on the CPU with one thread. All work for recording (choosing steps, extracting tensors, sums,
passes after each task, writing the file) is timed inside the run, in CPU seconds, and divided by the CPU seconds of the
rest of training; evaluation after each task counts for neither. If a task has few steps, what is done once per task
weighs more.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from moca.engine.interrupt import Interrupt
from moca.engine.material import Material
from moca.engine.outputs import Outputs
from moca.engine.run import Running
from moca.environment import environment
from moca.settings import Run, validate

SETTINGS = {
    "digits, mlp": {"perturb": "gaussian"},
    "digits, convnet": {"perturb": "gaussian", "model": "convnet"},
    "digits, convnet, linear classifier, wap": {"perturb": "wap", "model": "convnet", "head": "linear"},
}


class Clock:
    """CPU seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds, self.inside = 0.0, False

    def around(self, owner: Any, name: str) -> None:
        """Time this method, unless it is called from one that is already timed."""
        method: Callable[..., Any] = getattr(owner, name)

        def timed(*given: Any) -> Any:
            if self.inside:
                return method(*given)
            self.inside, begun = True, time.process_time()
            try:
                return method(*given)
            finally:
                self.seconds, self.inside = self.seconds + time.process_time() - begun, False

        setattr(owner, name, timed)


def overhead(settings: dict[str, Any], out: Path) -> dict[str, float]:
    """CPU seconds of recording and of the rest of training, and their ratio."""
    run = Running(*Material()(validate(Run, settings | {"record": "all", "device": "cpu", "threads": 1}))).start(out)
    recording, training = Clock(), Clock()
    outputs: Outputs = run.trainer.learning.outputs
    for owner, names in (
        (run, ("_request_outputs",)),
        (outputs, ("watch", "collect")),
        (run.recorder, ("steps", "task", "save")),
    ):
        for name in names:
            recording.around(owner, name)
    train = run._train_task

    def counted(interrupt: Interrupt) -> Any:
        begun, before = time.process_time(), recording.seconds
        yield from train(interrupt)
        training.seconds += time.process_time() - begun - (recording.seconds - before)

    run._train_task = counted  # type: ignore[method-assign]
    with Interrupt() as interrupt:
        for _ in run.steps(interrupt):
            pass
    spent = recording.seconds
    return {"recording": spent, "training": training.seconds, "share": spent / training.seconds}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for name, settings in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = overhead(settings, Path(folder) / "run")
        print(f"{name}: {100 * found[name]['share']:.2f} % of {found[name]['training']:.1f} s")
    if options.json:
        about = environment(torch.device("cpu"))
        options.json.write_text(json.dumps(about | {"runs": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
