"""The table of what the lead hides: of runs that recorded it, by the statistics of replayed batches where there are."""

from dataclasses import replace
from types import SimpleNamespace

from moca.engine.folder import RunFolder
from moca.measures.analysis import Analysis, write
from moca.measures.lead import MULTIPLES, summary
from moca.measures.record.lead import NAME
from moca.recipes.cells import cells
from moca.recipes.leads import rows
from moca.recipes.matching import Entry

PLAIN = next(cell for cell in cells() if cell.id == "t1-offline-none")


def curve(peak):
    """Accuracies that fall by a point for every step of the adjustment away from the best."""
    return [0.5 - abs(multiple - peak) / 5 for multiple in MULTIPLES]


def test_a_row_a_method_of_the_runs_that_recorded_it(tmp_path):
    def run(name, curves, finished=True):
        folder = tmp_path / name
        folder.mkdir()
        numbers = {f"{what}, {rule}": n for rule, one in curves.items() for what, n in summary(one).items()}
        write(RunFolder(folder), {NAME: Analysis("", "", numbers, {})} if numbers else {})
        return SimpleNamespace(finished=finished, folder=folder)

    both = [run(f"er-{n}", {"own": curve(0), "b": curve(peak)}) for n, peak in enumerate((2.0, 3.0))]
    ended = [*both, run("stopped", {"own": curve(5)}, finished=False), run("unrecorded", {})]
    plain = Entry(PLAIN, None, "", tuple(ended))
    moved = Entry(replace(PLAIN, perturb="vt"), None, "", (run("vt", {"own": curve(1.0)}),))
    doubtful = Entry(replace(PLAIN, perturb="wap", status="doubtful"), None, "", moved.results)
    head, found = rows([plain, plain, moved, doubtful])
    where = "offline cifar100 m500"
    assert found == [
        [where, "er", "2", "0.00 ± 14.14", "20.00 ± 14.14", "50.00 ± 0.00", "2.50 ± 0.71"],
        [where, "er+vt", "1", "30.00", "50.00", "50.00", "1.00"],
    ]
    assert {len(row) for row in found} == {len(head)}
