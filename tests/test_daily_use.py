"""The commands and the example of docs/daily-use.md, typed one after the other as a reader would."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from moca import cli

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "daily-use.md").read_text()
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```\n(.*?)```", PAGE, re.S)
    for line in block.splitlines()
]


def typed(words, capsys):
    """What a command prints."""
    if words[0] == "moca":
        with pytest.raises(SystemExit) as exit:
            cli.main(words[1:])
        said = capsys.readouterr()
        assert not exit.value.code, said.err
        return said.out
    if words[0] == "python":
        done = subprocess.run([sys.executable, ROOT / words[1], *words[2:]], capture_output=True, text=True, check=True)
        return done.stdout
    if words[0] == "mkdir":
        for name in words[2:]:
            Path(name).mkdir(parents=True)
    else:
        assert words[0] == "mv"
        for name in words[1:-1]:
            shutil.move(name, words[-1])
    return ""


def test_every_command_works_as_it_stands(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    said = {" ".join(words[:3]): typed(words, capsys) for words in COMMANDS if words}
    assert "3 new classes" in said["moca learn january"]
    assert "2 new classes" in said["moca learn february"]
    old = re.search(r"classes known before +([0-9.]+) % +([0-9.]+) %", said["moca learn february"])
    assert min(map(float, old.groups())) >= 75
    told = said["moca predict mysigns"].splitlines()
    rings = [line for line in told if "february/ring" in line]
    assert sum(line.split()[-3] == "ring" for line in rings) > 20
    assert (tmp_path / "memory.png").is_file()
    assert "Version 1 of mysigns" in said["moca model rollback"]

    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 8)
    images = random.integers(0, 50, (16, 16, 16, 3), dtype=np.uint8) + 150 * labels[:, None, None, None].astype(
        np.uint8
    )
    names = {"images": images, "labels": labels.astype(str)}
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(example, "docs/daily-use.md", "exec"), names)
    assert names["model"].classes_.tolist() == ["0", "1", "square"]
