"""Write the lock files anew from pyproject.toml: what moca needs to run, and what its tests need, in the same versions.

torch is pinned exactly: any looser request takes gigabytes of CUDA on Linux; pyproject.toml gives its range.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

TORCH = "torch==2.13.0"
BUILD = ("editables", "hatchling")
"""What `pip install --no-build-isolation --editable .` needs."""


def resolved(what: str, *others: str) -> dict[str, str]:
    """The version of every package that pip would install."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", report.name, TORCH, *others]
        subprocess.run([sys.executable, "-m", "pip", *command, "--editable", what], check=True)
        found = [item["metadata"] for item in json.loads(Path(report.name).read_text())["install"]]
    return {one["name"]: one["version"].split("+")[0] for one in found if one["name"] != "moca-cl"}


everything = resolved(".[dev]")
needed = resolved(".", *BUILD)
for name, names in {"requirements.lock": needed, "requirements-dev.lock": everything}.items():
    lines = sorted(f"{package}=={everything.get(package, needed.get(package))}" for package in names)
    Path(name).write_text("\n".join(["# Written by make lock.", *lines]) + "\n")
