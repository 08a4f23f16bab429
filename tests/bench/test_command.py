import json

import pytest

from moca import cli
from moca.bench import Record

TINY = "--device cpu --width 4 --batch 4 --threads 1 --steps 1 --blocks 1 --ways eager"


@pytest.fixture
def moca(monkeypatch, capsys, tmp_path):
    """Run a command in this process, in an empty folder; its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(words):
        with pytest.raises(SystemExit) as exit:
            cli.main(words.split())
        said = capsys.readouterr()
        return exit.value.code or 0, said.out, said.err

    return call


def test_a_benchmark(moca, tmp_path):
    code, out, err = moca(f"bench {TINY} --methods er er+vt:lambda=1 --no-twin --out a/b.json")
    assert code == 0
    made = json.loads((tmp_path / "a" / "b.json").read_text())
    assert [c["method"] for c in made["cells"]] == ["er", "er+vt:lambda=1"]
    for entry in made["cells"]:
        median = entry["ms"]["median"]
        assert f"{median:.2f}" in out
        assert f"{entry['method']} eager: {median:.2f} ms a step" in err
    assert made["command"] == (
        "moca bench --methods er er+vt:lambda=1 --ways eager --device cpu --width 4 --batch 4 --threads 1 --steps 1 "
        "--blocks 1 --no-twin --out a/b.json"
    )


def test_stopping_keeps_what_was_measured(moca, tmp_path, monkeypatch):
    whole = Record.measure

    def stopped(self, tell):
        yield next(whole(self, tell))
        raise KeyboardInterrupt

    monkeypatch.setattr(Record, "measure", stopped)
    code, out, err = moca(f"bench {TINY} --methods er er_ace --no-twin --out b.json")
    assert code == 130
    assert [c["method"] for c in json.loads((tmp_path / "b.json").read_text())["cells"]] == ["er"]
    assert "images/s" in out
    assert err.endswith("moca: stopped; what was measured (1) is in b.json\n")


def test_a_way_that_was_asked_for_and_cannot_run_is_told_and_no_success(moca, tmp_path):
    code, out, _ = moca(f"bench {TINY} captured --methods er --no-twin --out b.json")
    assert code == 1
    assert "execution=captured needs a CUDA device; use execution=eager or compiled: er captured" in out
    assert [cell["ms"] is None for cell in json.loads((tmp_path / "b.json").read_text())["cells"]] == [False, True]


MISTAKES = [
    ("--methods er+gausian", "unknown perturbation 'gausian'; did you mean 'gaussian'?"),
    ("--methods wap", "'wap' is a perturbation; give a learner with it: er+wap"),
    ("--methods er joint", "'joint' keeps no samples"),
    ("--methods er+wap:lamda=1", "unknown option 'lamda' of 'wap'; did you mean 'lambda'?"),
    ("--methods none", "methods = ()"),
    ("--ways eagr", "ways = 'eagr': must be 'eager', 'compiled' or 'captured'"),
    ("--packed 0", "packed = '0'"),
    ("--steps 0", "steps = '0'"),
    ("--width many", "width = 'many'"),
    ("--device cudaa", "unknown device 'cudaa'"),
    ("--device cpu --out here", "'here' exists already; choose another file with --out, or remove it"),
    ("--precison fp32", "Did you mean --precision?"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES)
def test_a_mistake_is_one_line_and_an_exit_code(moca, tmp_path, words, says):
    (tmp_path / "here").mkdir()
    code, out, err = moca(f"bench {words}")
    assert code in (1, 2)
    assert out == ""
    assert err.startswith("moca: ")
    assert err.count("\n") == 1, err
    assert says in err
