import csv
import signal
import sys

import pyarrow.parquet
import pytest

import moca
from moca import MocaError
from moca.report.page import write_report
from tests.report.seen_page import cells, data_of, text_of


def test_a_real_comparison_is_reported(tmp_path):
    made = moca.compare(perturb=["none", "vt"], seeds=2, epochs=1, memory=30, threads=1, out=tmp_path / "out")
    page = write_report(made).read_text(encoding="utf-8")
    for row in made.rows:
        assert cells(page, row.label)["Final accuracy"] == row.spread("final_accuracy").percent()
    finals = {(row.label, r.settings.seed.seed): r.final_accuracy for row in made.rows for r in row.results}
    by_hand = 100 * sum(finals["er+vt", s] - finals["er", s] for s in (0, 1)) / 2
    shown = cells(page, "er+vt")["Gain over its learner"].replace("\N{MINUS SIGN}", "-").split(" ± ")[0]
    assert abs(float(shown) - by_hand) < 0.00501
    assert "moca compare --perturb none vt:lambda=0.5 --memory 30 --tasks 5 --class-order natural --epochs 1" in (
        text_of(page)
    )
    assert "--threads 1 --seeds 2" in text_of(page)
    assert [plot["kind"] for plot in data_of(page)["plots"]] == ["curves", "dots", "matrix", "matrix"]

    again = moca.Comparison.load(tmp_path / "out")
    assert [row.label for row in again.rows] == ["er", "er+vt"]
    assert again.left_out == []
    # Only the order of methods, and with it colours and labels, could differ.
    assert write_report(again, path=tmp_path / "again.html").read_text(encoding="utf-8") == page

    with (tmp_path / "out" / "tidy.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    chosen = [row for row in rows if row["metric"] == "accuracy_at_the_end" and row["run"] == "er+vt-s1"]
    assert [float(row["value"]) for row in chosen] == made["er+vt"].results[1].accuracy_matrix[-1]
    assert [row["task"] for row in chosen] == list("12345")
    learned = [row for row in rows if row["metric"] == "accuracy_when_learned" and row["run"] == "er+vt-s1"]
    matrix = made["er+vt"].results[1].accuracy_matrix
    assert [float(row["value"]) for row in learned] == [matrix[task + 1][task] for task in range(5)]
    assert {(row["perturb"], row["memory"], row["seed"]) for row in chosen} == {("vt:lambda=0.5", "30", "1")}
    assert chosen[0]["class_order"] == "natural" and chosen[0]["method"] == "er+vt" and chosen[0]["started"]
    kept = pyarrow.parquet.read_table(tmp_path / "out" / "tidy.parquet")
    assert kept.num_rows == len(rows) and kept.column_names == list(rows[0])
    assert kept.column("value").type == "double"


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_a_disk_that_is_full_once_tables_are_written_says_how_to_go_on_and_what_failed(tmp_path, monkeypatch):
    import resource

    def on_a_full_disk(*given):
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            write_table(*given)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)

    write_table = pyarrow.parquet.write_table
    monkeypatch.setattr(pyarrow.parquet, "write_table", on_a_full_disk)
    folder = tmp_path / "out"
    (folder / "er+vt-s0").mkdir(parents=True)
    (folder / "er+vt-s0" / "mine").write_text("")
    with pytest.raises(MocaError) as error:
        moca.compare(perturb=["none", "vt"], seeds=1, epochs=1, memory=30, threads=1, out=folder)
    assert str(error.value).startswith(
        f"folder '{folder}' cannot be written: File too large; fix that and resume (moca resume, or the same "
        f"comparison again); er+vt-s0: run folder '{folder / 'er+vt-s0'}' is already used"
    )
    with pytest.raises(MocaError, match=r"File too large; choose another$"):
        moca.Comparison.load(folder).save(tmp_path / "tables")
