"""`moca runs` and `moca report`: what they print, write and refuse."""

import csv
import json
import shutil
from importlib import import_module

import pytest
from rich.console import Console
from tests.report.made_results import comparison, result, written

from moca.cli.show import show_comparison, show_result
from moca.engine.cost import Cost
from moca.engine.folder import RunFolder
from moca.parts import PERTURBATIONS
from moca.report.comparison import Comparison
from moca.settings import Run, validate


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Without the five megabytes of plotly."""
    monkeypatch.setattr("moca.report.page._plotly", lambda: "/* plotly.js v0 */")


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for seed in (0, 1):
        written(result(tmp_path, 0.5 + seed / 10, seed), folder / f"er-s{seed}")
        written(result(tmp_path, 0.7, seed, perturb="wap"), folder / "compare" / f"er+wap-s{seed}")
    written(result(tmp_path, 0.9, data="mnist", validation=0.1), folder / "mnist")
    RunFolder.create(folder / "half", validate(Run, {"learner": "derpp"})).release()
    return folder


def test_runs_are_listed(moca, runs):
    code, out, _ = moca("runs")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert [line[:6] for line in lines if line[:1] == ["er-s1"]] == [
        ["er-s1", "er", "digits", "1", "finished", "60.00"]
    ]
    assert next(line for line in lines if line[:1] == ["mnist"])[5] == "90.00*"
    assert "half: moca resume runs/half" in out
    assert "5 finished, 1 stopped" in out
    assert "* on a held-out share of the training data, not on the test set" in out


def test_runs_of_several_folders_are_named_from_what_these_share(moca, runs):
    _, out, _ = moca("runs", "runs/er-s0", "runs/compare", "runs/half")
    assert {line.split()[0] for line in out.splitlines() if "digits" in line} == {
        "er-s0", "compare/er+wap-s0", "compare/er+wap-s1", "half"
    }  # fmt: skip
    assert "half: moca resume runs/half" in out
    assert "runs/er-s0" in moca("runs", "runs/er-s0")[1]


@pytest.mark.parametrize(
    ("width", "spared"), [(65, {"size", "started", "method"}), (88, {"size", "started"}), (200, set())]
)
def test_a_terminal_shows_the_columns_for_which_it_has_room_and_whole_names(moca, runs, monkeypatch, width, spared):
    terminal = Console(width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(import_module("moca.cli.runs"), "console", terminal)
    lines = moca("runs")[1].splitlines()
    head = next(line.split() for line in lines if "seed" in line)
    assert {"run", "method", "data", "seed", "state", "started", "size"} - spared <= {*head}
    assert not spared & {*head}
    table = [line.rstrip() for line in lines if line.startswith((" er", " compare", " mnist", " half"))]
    assert [line.split()[0] for line in table] == [
        "compare/er+wap-s0", "compare/er+wap-s1", "er-s0", "er-s1", "half", "mnist"
    ]  # fmt: skip
    assert all(len(line) <= width for line in table)


def test_how_far_an_unfinished_run_came_is_listed(moca, runs):
    for learned, told in ((0, "stopped "), (1, "stopped after 1 task "), (4, "stopped after 4 tasks ")):
        (runs / "half" / "tasks.jsonl").write_text(json.dumps({"learned": learned, "seconds": 1.0}) + "\n")
        out = moca("runs")[1]
        assert told in next(line for line in out.splitlines() if line.split()[:1] == ["half"]) + " "


def test_programs_get_the_settings_and_the_numbers_of_every_run(moca, runs):
    listed = {run["folder"]: run for run in json.loads(moca("runs", "--json")[1])}
    done, half = listed["runs/er-s1"], listed["runs/half"]
    saved = json.loads((runs / "er-s1" / "result.json").read_text())
    assert done["settings"] == json.loads((runs / "er-s1" / "settings.json").read_text())
    assert done["forgetting"] == saved["forgetting"] > 0
    assert done["average_incremental_accuracy"] == saved["average_incremental_accuracy"] > 0
    assert (done["moca"], half["moca"]) == (saved["environment"]["moca"], None)
    assert half["settings"]["learner"]["name"] == "derpp" and half["forgetting"] is None


def test_runs_can_be_chosen_and_sorted(moca, runs):
    _, out, _ = moca("runs", "runs", "--perturb", "wap", "--state", "finished", "--json")
    assert [run["folder"] for run in json.loads(out)] == [f"runs/compare/er+wap-s{seed}" for seed in (0, 1)]
    _, out, _ = moca("runs", "runs", "--data", "digits", "--learner", "er", "derpp", "--sort", "accuracy", "--json")
    assert [run["accuracy"] for run in json.loads(out)] == [pytest.approx(0.7), pytest.approx(0.7), 0.6, 0.5, None]
    code, out, _ = moca("runs", "runs", "--learner", "gem")
    assert code == 0 and "No run in runs has learner 'gem'; known: derpp, er" in out
    assert "did you mean 'derpp'?" in moca("runs", "runs", "--learner", "derp")[1]
    assert "No such run in runs; 6 others there." in moca("runs", "runs", "--learner", "er", "--state", "failed")[1]


def test_the_command_below_a_list_reports_the_runs_of_the_list(moca, runs):
    assert moca("runs")[1].splitlines()[-2].endswith(" Draw them: moca report runs")
    runs.rename(runs.with_name("my runs"))
    command = moca("runs", "my runs", "--perturb", "wap", "--data", "digits")[1].rpartition("Draw them: ")[2].strip()
    assert command == "moca report 'my runs' --perturb wap --data digits"


@pytest.mark.parametrize(("option", "value"), [("--state", "finished"), ("--learner", "er"), ("--data", "digits")])
def test_a_folder_after_an_option_that_takes_all_that_follows(moca, runs, option, value):
    code, out, err = moca("runs", option, value, "runs")
    assert code in (1, 2) and not out
    assert err == f"moca: folders come first, since {option} takes all that follows it: moca runs runs {option} ...\n"
    runs.rename(runs.with_name(value))
    assert moca("runs", value, option, value, "--json")[0] == 0, "the first value is no folder"


def test_no_runs_and_a_place_that_is_none(moca, tmp_path):
    code, out, _ = moca("runs")
    assert code == 0 and "No run in runs (there is no such folder here). Begin one: moca run; or name" in out
    code, _, err = moca("runs", "nowhere")
    assert code == 1 and "folder 'nowhere' does not exist" in err


def test_names_with_markup_are_printed_as_they_are(moca, tmp_path):
    written(result(tmp_path, 0.5), tmp_path / "runs" / "[red]x[/red]")
    assert "[red]x[/red]" in moca("runs")[1]
    assert "Left out: runs/[red]y[/red]" in _with_one_more(moca, tmp_path)


def _with_one_more(moca, tmp_path):
    RunFolder.create(tmp_path / "runs" / "[red]y[/red]", validate(Run, {})).release()
    return moca("report", "runs")[1]


def test_what_a_run_is_called_and_says_is_no_markup(tmp_path, capsys):
    made = result(tmp_path, 0.5)
    made.folder, made.notes = tmp_path / "[/red]", ["see [0]"]
    show_result(made)
    out = capsys.readouterr().out
    assert f"Run folder: {made.folder}\n" in out and "Note: see [0].\n" in out


def test_a_note_about_many_methods_names_a_few(tmp_path, capsys):
    told = {f"m{i}": [result(tmp_path, 0.5, lr=0.1 + i, notes=["slow"])] for i in range(9)}
    show_comparison(comparison(tmp_path, told | {"er": [0.5]}))
    assert "Note: m0, m1, m2, m3, m4, m5 and 3 more: slow.\n" in capsys.readouterr().out


def test_how_a_comparison_would_be_faster_is_said_as_an_option(tmp_path, capsys):
    slow = comparison(tmp_path, {"er": [0.5, 0.6], "derpp": [0.5, 0.6]})
    slow.cost = Cost(4, 90.0, 2000, 1, 1, cores=2)
    show_comparison(slow)
    assert "\nOne after the other; --jobs 2 carries out 2 at a time.\n" in capsys.readouterr().out


def test_a_report_with_everything(moca, runs, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "moca.report.figures.save_figures", lambda made, folder: asked.append((made, folder)) or [folder]
    )
    words = ("--out", "out/page.html", "--tables", "tables", "--figures", "figures", "--latex", "out/tables.tex")
    code, out, _ = moca("report", "runs", *words)
    assert code == 0
    assert "Left out: runs/half: stopped before its end; resume it with: moca resume runs/half" in out
    assert "2 settings whose numbers cannot be compared, each in its own section." in out
    assert (tmp_path / "out" / "page.html").read_text().startswith("<!doctype html>")
    assert {path.name for path in (tmp_path / "tables").iterdir()} >= {"runs.csv", "tidy.csv", "tidy.parquet"}
    assert len((tmp_path / "tables" / "runs.csv").read_text().splitlines()) == 6
    assert [(len(made.results), str(folder)) for made, folder in asked] == [(5, "figures")]
    tables = (tmp_path / "out" / "tables.tex").read_text()
    assert tables.count(r"\begin{table}") == 2
    assert r"ER + WAP & ER & +15.00 $\pm$ 7.07 & 0.20 & 0.20 & 2 & paired t & 2 of 2 \\" in tables
    assert r"ER + WAP & 2 & \textbf{70.00} $\pm$ 0.00 & +15.00 $\pm$ 7.07 & 0.20 &" in tables
    held_out = (tmp_path / "out" / "tables-held-out.tex").read_text()
    assert "ER & 1 & 90.00" in held_out and "mnist" not in tables, "they are no results for a paper"
    assert sorted(path.name for path in runs.iterdir()) == ["compare", "er-s0", "er-s1", "half", "mnist"]


def test_tables_name_runs_of_several_folders_by_their_paths_if_names_alone_would_not_tell_them_apart(moca, tmp_path):
    for place, lr in (("a", 0.1), ("b", 0.2), ("sub/c", 0.3)):
        written(result(tmp_path, 0.5, lr=lr), tmp_path / place / "er-s0")
    for given, called in (("a b sub/c", {"a/er-s0", "b/er-s0", "sub/c/er-s0"}), ("sub/c", {"er-s0"})):
        moca("report", *given.split(), "--tables", "tables")
        for table, column in (("runs.csv", "folder"), ("tidy.csv", "run")):
            with (tmp_path / "tables" / table).open(newline="") as file:
                assert {row[column] for row in csv.DictReader(file)} == called


def test_a_note_about_some_seeds_says_of_how_many(tmp_path, capsys):
    """Of a method that did well otherwise it would read as if nothing had been learnt."""
    runs = {"er": [result(tmp_path, 0.5, 0, notes=["told"]), result(tmp_path, 0.6, 1)],
            "er+wap": [result(tmp_path, 0.7, s, perturb="wap", notes=["told", "all"]) for s in (0, 1)]}  # fmt: skip
    show_comparison(comparison(tmp_path, runs))
    out = capsys.readouterr().out
    assert "Note: er (1 of 2 seeds), er+wap: told." in out
    assert "Note: er+wap: all." in out


def test_settings_that_do_not_compare_are_printed_apart_and_runs_need_no_name(moca, runs):
    code, out, _ = moca("report")
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    first, second = (next(i for i, line in enumerate(lines) if line.startswith(name)) for name in ("digits,", "mnist,"))
    assert all(line.split()[0] in ("er", "er+wap") for line in lines[first + 5 : first + 7])
    assert lines[second + 5].split()[:3] == ["er", "1", "90.00"]
    shutil.rmtree(runs)
    assert "there is no folder 'runs' here; say where runs are: moca report FOLDER" in moca("report")[2]


MINE = "# mine\n% \\usepackage{booktabs}\n"


@pytest.mark.parametrize(
    ("file", "words", "told"),
    [
        ("mine.py", "--out mine.py", "'mine.py' must end in .html: a moca report is written there"),
        ("runs/compare.json", "--out runs/compare.json", "'runs/compare.json' must end in .html"),
        ("mine.html", "--out mine.html", "'mine.html' is not a moca report, so it is kept; remove it, or choose"),
        ("mine.toml", "--latex mine.toml", "'mine.toml' must end in .tex"),
        ("notes.tex", "--latex notes.tex", "'notes.tex' is not a LaTeX file of moca report, so it is kept"),
    ],
)
def test_a_file_that_moca_did_not_write_is_kept(moca, runs, tmp_path, file, words, told):
    shutil.rmtree(runs / "mnist")
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(MINE)
    code, _, err = moca("report", "runs", *words.split())
    assert (code, told in err.replace("\n", "")) == (1, True), err
    assert path.read_text() == MINE


def test_an_earlier_report_with_tables_and_figures_is_replaced(moca, runs, tmp_path):
    words = ("--out", "page.html", "--tables", "t", "--figures", "f", "--latex", "t.tex")
    assert [moca("report", "runs", *words)[0] for _ in range(2)] == [0, 0]
    first = (tmp_path / "page.html").read_text()
    shutil.rmtree(runs / "mnist")
    assert moca("report", "runs", *words)[0] == 0
    assert (tmp_path / "page.html").read_text() != first
    (tmp_path / "t.tex").write_text("")
    assert moca("report", "runs", *words)[0] == 0, "nothing is lost with an empty file"


def test_tables_that_the_disk_has_no_room_for_leave_earlier_ones(moca, runs, tmp_path, full_disk):
    assert moca("report", "runs", "--latex", "t.tex")[0] == 0
    before = (tmp_path / "t.tex").read_text()
    full_disk("t.tex")
    code, _, err = moca("report", "runs", "--latex", "t.tex")
    assert (code, err) == (1, "moca: 't.tex' cannot be written: No space left on device; choose another --latex\n")
    assert (tmp_path / "t.tex").read_text() == before


def test_no_name_is_folded_in_a_file(moca, runs, tmp_path):
    """Else grep does not find it."""
    long = "teacher:of=derpp:alpha=0.123456789/beta=0.123456789,form=cls,weight=0.123456789,decay=0.987654321"
    written(result(tmp_path, 0.5, learner=long, perturb="wap:lambda=0.123456789,steps=3"), runs / "long")
    (line,) = [line for line in moca("report")[1].splitlines() if line.startswith(" teacher:")]
    assert "of=derpp:alpha=0.123456789/beta=0.123456789" in line and "steps=3" in line and "50.00" in line


def test_nothing_to_report(moca, runs):
    code, _, err = moca("report", "runs/half")
    assert code == 1 and "no finished run in runs/half: stopped before its end" in err
    assert "cannot be written" in moca("report", "runs", "--out", "runs/er-s0/result.json/x.html")[2]
    code, _, err = moca("report", "runs", "--tables", "runs/er-s0/result.json/x")
    assert (code, err.splitlines()[-1]) == (
        1,
        "moca: folder 'runs/er-s0/result.json/x' cannot be written: Not a directory; choose another",
    )


def test_what_to_do_with_runs_of_a_part_that_was_registered_elsewhere(moca, runs, monkeypatch):
    registered = dict(PERTURBATIONS.registered)
    monkeypatch.setattr(PERTURBATIONS, "registered", registered)
    registered["shuf"] = PERTURBATIONS.find("wap")
    written(result(runs, 0.5, 7, perturb="shuf"), runs / "shuf")
    assert len(Comparison.load(runs / "shuf").results) == 1
    del registered["shuf"]
    told = (
        "run 'runs/shuf' has the perturbation 'shuf', which is not known here; register it in Python (moca.register) "
        "and use moca.analyse or moca.resume there, or give new runs its dotted path (--perturb mymodule.MyClass), "
        "which commands can import"
    )
    for places in ("runs/shuf", "runs"):
        code, out, _ = moca("report", places)
        assert (code, "er+shuf" in out, "shuf" in out.partition("Left out")[2]) == (0, True, False), (
            "no need to know it"
        )
    code, _, err = moca("analyse", "runs/er-s0", "runs/shuf", "--no-figures")
    assert (code, told in err) == (1, True)
    assert told in moca("analyse", "runs/shuf")[2]


def test_trackers_are_added_however_progress_is_shown(moca, runs, monkeypatch):
    asked = []
    monkeypatch.setattr("moca.api.resume", lambda folder, **given: asked.append(given["track"]) or result(folder, 0.5))
    for progress in ("bar", "lines"):
        moca("resume", "runs/half", "--progress", progress, "--track", "tensorboard")
    assert asked == [["tensorboard"]] * 2


def test_a_run_that_is_there_twice_is_one_seed(moca, runs):
    shutil.copytree(runs / "er-s0", runs / "again")
    code, out, _ = moca("analyse", "runs/again", "runs/er-s0", "runs/er-s1", "--no-figures")
    assert code == 0 and "er" not in out.split("Left")[0], "no table where there is nothing to show"
    assert "Left out: runs/er-s0: the same settings and seed as runs/again" in out


def test_a_report_of_some_runs(moca, runs, tmp_path):
    def reported(*words):
        code, out, err = moca("report", "runs", *words, "--tables", "t")
        lines = (tmp_path / "t" / "runs.csv").read_text().splitlines()[1:] if code == 0 else []
        return sorted({line.partition(",")[0] for line in lines}), "Left out" in out, err.strip()

    assert reported("--learner", "er", "--data", "digits") == (["er", "er+wap"], False, ""), "and not the one of derpp"
    assert reported("--perturb", "wap") == (["er+wap"], False, "")
    told = "moca: no run in runs has learner 'gem'; known: derpp, er"
    assert reported("--learner", "gem") == ([], False, told)
    assert "no finished run in runs: runs/half: stopped" in reported("--learner", "derpp")[2]
    code, _, err = moca("report", "--learner", "er", "runs")
    assert code == 1 and "takes all that follows it: moca report runs --learner ..." in err


def test_a_mean_over_runs_of_several_versions_is_said_to_be_one(moca, runs, tmp_path):
    assert "Note:" not in moca("report", "runs")[1]
    newer = result(tmp_path, 0.5, 2)
    newer.environment = newer.environment | {"moca": "0.2.0"}
    written(newer, runs / "er-s2")
    (note,) = [line for line in moca("report", "runs")[1].splitlines() if line.startswith("Note:")]
    assert note == "Note: er (digits, 3 tasks): a mean over runs of moca 0.1.0 and 0.2.0."


def test_no_figure_is_told_as_none(moca, runs):
    out = moca("analyse", "runs/er-s0")[1]
    assert "No figure: nothing to draw." in out and "PDF" not in out
    assert not (runs / "er-s0" / "figures").exists()


def test_numbers_on_held_out_images_are_said_to_be(tmp_path, capsys):
    show_result(result(tmp_path, 0.5, validation=0.1))
    assert "On a held-out share (0.1) of the training images, not on the test images." in capsys.readouterr().out
    show_result(result(tmp_path, 0.5))
    assert "held-out" not in capsys.readouterr().out


def test_what_is_unusual_of_a_run_is_listed(moca, runs, tmp_path):
    assert "unlike most" not in moca("runs")[1]
    written(result(tmp_path, 0.5, 2, epochs=3), runs / "er-s2")
    out = moca("runs")[1]
    assert "unlike most" in out
    assert [line.split()[2] for line in out.splitlines() if line.split()[:1] == ["er-s2"]] == ["epochs=3"]
