"""`moca paper`: what it prints, and one line for a mistake."""

import pytest
from tests.recipes.conftest import tiny_paper  # noqa: F401


@pytest.fixture
def moca(moca, monkeypatch):
    """The same for commands of `moca paper`, in a wide terminal."""
    monkeypatch.setattr("moca.cli.paper.console.width", 160)
    return lambda *words: moca("paper", *words)


def test_ls_says_what_there_is_and_what_is_missing(moca, tmp_path):
    code, out, err = moca("ls")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: " ".join(line.split()) for line in out.splitlines() if line.strip()}
    assert lines["table2"].startswith("table2 0 of 105 315 ")
    assert "offline: three data sets" in lines["table2"]
    assert lines["fig1"].startswith("fig1 0 of 17 30 ")
    assert "fig13" not in lines, "a sketch"
    assert "GPU minutes are estimates" in out and "no finished runs to correct them" in " ".join(out.split())
    assert f"No run was found below '{tmp_path / 'results'}': nothing counts as measured. Carry" in out
    assert moca("report")[0] == 1 and not (tmp_path / "RESULTS.md").exists(), "a page of zeros would say nothing"


def test_show_has_the_papers_number_and_the_command(moca):
    code, out, _ = moca("show", "table2", "--only", "cifar100,m500,er,wap")
    assert code == 0
    assert "40.24 ± 0.78" in out
    assert "to be run" in out
    assert "1: moca compare --data cifar100 --learner er --perturb wap:lambda=1.5,step_size=100.0 --memory 500" in out
    assert "runs of the commands above count if --out puts them below results." in out


def test_show_says_in_words_what_it_shows_and_each_thing_once(moca):
    _, out, _ = moca("show", "table1", "table6", "table12", "fig12")
    assert "lambda=2.0 (here 1.5)" in out, "a row says so if it is run with another value"
    for words in ("log of singular value 51", "original angle (degrees)", "training time (seconds)"):
        assert words in out
    assert not any(raw in out for raw in ("log_sv", "angle_original", "train_seconds", "final_accuracy"))
    for words in ("memory not stated", "vMF kappa not stated", "wap is run with lambda 1.5", "Accuracies are in %"):
        assert out.count(words) == 1, words
    assert max(len(line) for line in out.splitlines() if "moca compare" in line) < 200


def test_a_figure_without_numbers_is_shown_by_what_draws_it(moca):
    code, out, _ = moca("show", "fig5")
    assert code == 0
    assert "moca analyse augmented --only implicit_augmentation --classes bird" in out


def test_in_a_narrow_terminal_no_word_is_cut(moca, monkeypatch):
    monkeypatch.setattr("moca.cli.paper.console.width", 80)
    _, out, _ = moca("ls")
    assert "…" not in out
    assert max(map(len, out.splitlines()[:-1])) <= 80


def test_a_dry_run_writes_nothing(moca, tmp_path):
    code, out, _ = moca("run", "table2", "--only", "cifar100,m500,claimed", "--dry-run")
    assert code == 0
    assert "27 runs, about" in out
    assert "No run was found below" in out and "every method counts as ER; GEM takes" in " ".join(out.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "tabel2"], "the paper has no 'tabel2'; did you mean 'table2'?"),
        (["show", "table2", "--only", "cifar1000"], "no cell is 'cifar1000'; did you mean 'cifar100'?"),
        (["show", "fig4"], "fig4 has no numbers; it is a sketch"),
        (["run", "fig2"], "fig2 has no numbers; moca paper show fig2 says how it is drawn"),
        (["run"], "say which: table1 to table13, fig1 to fig13, or all; moca paper ls lists them"),
        (["run", "table2", "--dry-run", "--record", "rulez"], "record = 'rulez': did you mean 'rules'?"),
        (["run", "table2", "--seeds", "0"], "seeds must be a whole number from 1 on (it is 0)"),
        (["report", "--out", "mine.toml"], "'mine.toml' must end in .md: a page of moca paper report is written there"),
    ],
)
def test_a_mistake_is_one_line(moca, words, said):
    code, _, err = moca(*words)
    assert code == 1
    assert err.startswith(f"moca: {said}")
    assert err.count("\n") == 1


def test_run_then_report(moca, tiny_paper, tmp_path, full_disk):  # noqa: F811
    code, out, _ = moca("run", "all", "--seeds", 1, "--device", "cuda", "--dry-run")
    assert (code, "seeds  GPU minutes" in out) == (0, True), "wherever it is asked"
    code, out, _ = moca("run", "all", "--seeds", 1, "--device", "cpu")
    assert code == 0
    assert "2 runs, about 1 GPU minutes on an NVIDIA H200, far longer on this CPU." in out
    assert "seeds  GPU minutes" not in out, "the table is of what is run here"
    assert "reproduced, above (n = 1)" in out
    assert len(list((tmp_path / "results/paper").iterdir())) == 2
    code, out, _ = moca("run", "all", "--seeds", 1, "--device", "cpu")
    assert "Nothing is missing." in out
    code, out, _ = moca("report", "--seeds", 1)
    assert "2 runs found; page: RESULTS.md" in out and "No run was found" not in out
    assert "reproduced, above (n = 1)" in (tmp_path / "RESULTS.md").read_text()
    assert moca("report", "--seeds", 1)[0] == 0, "an earlier page is replaced"
    told = "moca: '/dev/null/x.md' cannot be written: '/dev/null' is a file; choose"
    assert moca("report", "--seeds", 1, "--out", "/dev/null/x.md")[2].startswith(told)
    (tmp_path / "notes.md").write_text("mine")
    code, _, err = moca("report", "--seeds", 1, "--out", "notes.md")
    assert (code, "'notes.md' is not a page of moca paper report, so it is kept" in err) == (1, True)
    assert (tmp_path / "notes.md").read_text() == "mine"
    before = (tmp_path / "RESULTS.md").read_text()
    full_disk("RESULTS.md")
    told = "moca: 'RESULTS.md' cannot be written: No space left on device; choose another --out\n"
    assert moca("report", "--seeds", 1)[::2] == (1, told)
    assert (tmp_path / "RESULTS.md").read_text() == before
