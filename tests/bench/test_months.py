"""The benchmark of classes that arrive month by month: which of its rows are the same."""

import argparse
import importlib.util
from pathlib import Path

import pytest

import moca

FILE = Path(__file__).parents[2] / "benchmarks/months.py"
OPTIONS = {"validation": False, "frozen": True, "frozen_encoder": "mlp", "frozen_epochs": 30, "images_per_class": None,
           "encoder": None, "epochs": None, "months": 2, "only": ["er"], "seeds": [0], "memory": [20],
           "device": "cpu"}  # fmt: skip


@pytest.fixture(scope="module")
def months():
    spec = importlib.util.spec_from_file_location("months", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_was_chosen_otherwise_is_another_row(months, monkeypatch, tmp_path):
    digits = moca.load("digits")

    def rows(**others):
        (setting,) = months.settings(digits, argparse.Namespace(**OPTIONS | others))
        kept = dict(zip(months.KEY, setting.key, strict=True))
        return [kept | {"month": str(n), "classes": "5", "old": "1", "new": "2", "all": "3", "seconds": "1",
                        "device": "CPU"} for n in (1, 2)]  # fmt: skip

    file = tmp_path / "months.csv"
    every = [rows(), rows(frozen_epochs=60)]
    monkeypatch.setattr(months, "own_recipe", lambda *_: {"schedule": "constant"})
    every.append(rows())
    for some in every:
        months.keep(some, file)
    assert len({tuple(row[name] for name in months.KEY) for row in months.rows_of(file)}) == len(every)
    assert file.with_suffix(".md").read_text().count("## digits") == len(every), "a table each"


def test_a_file_of_other_columns_is_not_added_to(months, tmp_path):
    (tmp_path / "older.csv").write_text("data,frozen,images\ndigits,,all\n")
    with pytest.raises(SystemExit, match="was written with other columns"):
        months.rows_of(tmp_path / "older.csv")


def test_the_results_are_as_the_script_writes_them(months):
    for name in ("months", "months_selection"):
        rows = months.rows_of(FILE.parents[1] / f"results/{name}.csv")
        assert (FILE.parents[1] / f"results/{name}.md").read_text() == months.table(rows)
