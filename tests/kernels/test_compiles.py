import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.devices import kernel_device


@pytest.mark.skipif(kernel_device() is None, reason="needs triton")
def test_every_kernel_compiles_for_a_gpu():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).parent / "compile_all.py"
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {line.split()[0] for line in done.stdout.splitlines()} == {
        *("_sums", "_normalise", "_gradient_sums", "_input_gradient"),
        *("_project", "_project_gradient", "_displace", "_displace_gradient"),
        *("_numbers", "_transform", "_descend", "_slope"),
    }
