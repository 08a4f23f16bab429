"""The progress bar: a long name is cut before the numbers are."""

import pytest

from moca.engine.progress import ProgressBar


@pytest.mark.parametrize("name", ["er", "derpp:" + ",".join(f"option{i}={i}" for i in range(20))])
def test_the_numbers_are_whole_however_long_the_name(monkeypatch, capsys, name):
    monkeypatch.setenv("COLUMNS", "80")
    with ProgressBar(1234, name) as bar:
        bar(567, "task 2/5")
    last = capsys.readouterr().err.splitlines()[-1]
    assert " 567/1234 " in last
    assert last.startswith(f"{name} task 2/5" if len(name) < 40 else name[:39] + "…")
