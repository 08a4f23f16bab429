"""The examples of docs/extend.md, run one after the other as a reader would."""

import re
from pathlib import Path

import pytest

import moca
from moca import parts

PAGE = (Path(__file__).parents[1] / "docs" / "extend.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture
def names(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parts.LEARNERS, "registered", {})
    return {}


def test_every_example_works_as_it_stands(names):
    assert len(BLOCKS) == 14
    compared = []
    for block in BLOCKS:
        exec(compile(block, "docs/extend.md", "exec"), names)
        if isinstance(names.get("result"), moca.Result):
            assert names["result"].status == "finished"
        if "comparison" in names:
            compared.append([(row.label, len(row.finished)) for row in names["comparison"].rows])
    assert compared == [[("er", 2), ("weighted:decay=0.9", 2), ("weighted:decay=0.5", 2)], [("er", 1), ("Broken", 0)]]
    said = re.search(r"print\(\*comparison.mistakes\)  # (.*) \.\.\.", PAGE)[1]
    assert names["comparison"].mistakes[0].startswith(said)


def test_each_example_is_short():
    assert all(len([line for line in block.splitlines() if line.strip()]) <= 25 for block in BLOCKS)
