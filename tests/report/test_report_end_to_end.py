import moca
from moca.report.page import write_report
from tests.report.seen_page import cells, text_of


def test_a_real_comparison_is_reported(tmp_path):
    made = moca.compare(perturb=["none", "vt"], seeds=2, epochs=1, memory=30, threads=1, out=tmp_path / "out")
    page = write_report(made).read_text(encoding="utf-8")
    for row in made.rows:
        assert cells(page, row.label)[2] == row.spread("final_accuracy").percent()
    finals = {(row.label, r.settings.seed.seed): r.final_accuracy for row in made.rows for r in row.results}
    by_hand = 100 * sum(finals["er+vt", s] - finals["er", s] for s in (0, 1)) / 2
    shown = cells(page, "er+vt")[3].replace("\N{MINUS SIGN}", "-").split(" ± ")[0]
    assert abs(float(shown) - by_hand) < 0.00501
    assert "moca compare --perturb none vt:lambda=0.5 --memory 30 --tasks 5 --class-order natural --epochs 1" in (
        text_of(page)
    )
    assert "--threads 1 --seeds 2" in text_of(page)
    assert page.count("<svg") == 4
