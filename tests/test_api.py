"""The Python interface: what a name costs, where files go, what is refused."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
import pytest

import moca
from moca import MocaError, api
from tests.data import made

FAST = {
    "model": "mlp:width=8,depth=1,features=4",
    "memory": 20,
    "tasks": 2,
    "epochs": 1,
    "batch": 200,
    "device": "cpu",
    "threads": 1,
}


def imported_by(code):
    """Top-level modules that a fresh interpreter has imported after running the code."""
    program = f"{code}\nimport sys; print(*{{m.partition('.')[0] for m in sys.modules}})"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_moca_imports_nothing_heavy():
    modules = imported_by("import moca; dir(moca); moca.__version__")
    assert "moca" in modules
    assert modules.isdisjoint({"torch", "numpy", "sklearn", "matplotlib", "pydantic", "scipy", "rich"})


@pytest.mark.parametrize("name", moca.__all__)
def test_every_public_name_exists(name):
    assert getattr(moca, name).__name__.removeprefix("moca.") == name
    assert name in dir(moca)


def test_what_can_be_typed_is_offered():
    """Names that are looked up when first used are in `dir` all the same."""
    assert set(moca.data.__all__) <= set(dir(moca.data))


def test_reprs_say_what_they_are(tmp_path):
    made = moca.compare(**FAST, out=tmp_path / "compared")
    assert repr(made) == str(made) and "final accuracy" in repr(made)
    assert list(made) == ["er"] and "er" in made and "derpp" not in made
    with pytest.raises(MocaError, match="no method '0' was compared"):
        made[0]
    assert repr(moca.CosineHead(32, 10)) == "CosineHead(32, 10)"
    assert repr(moca.LinearHead(4, 2)) == "LinearHead(4, 2)"
    task = moca.class_incremental(moca.load("digits"), 5)[0]
    assert repr(task) == f"Task of {len(task.train)} training and {len(task.test)} test samples, classes: 0, 1"


def test_the_data_commands_are_reached_from_moca_alone_and_without_torch():
    modules = imported_by("import moca; moca.data.add, moca.data.check, moca.data.listing, moca.data.remove")
    assert "numpy" in modules and "torch" not in modules


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'trainn'"):
        _ = moca.trainn


def test_default_folders_do_not_clash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [moca.run(**FAST, perturb="gaussian").folder for _ in range(3)]
    folders.append(moca.run(**FAST, perturb="gaussian", seed=1).folder)
    folders.append(moca.run(**FAST, perturb="gaussian:lambda=1").folder)
    folders += [moca.compare(**FAST).folder for _ in range(2)]
    assert [str(f.relative_to(tmp_path)) for f in folders] == [
        "runs/digits-er+gaussian-s0",
        "runs/digits-er+gaussian-s0-2",
        "runs/digits-er+gaussian-s0-3",
        "runs/digits-er+gaussian-s1",
        "runs/digits-er+gaussian_lambda=1.0-s0",
        "runs/compare",
        "runs/compare-2",
    ]
    assert all((tmp_path / f / "result.json").is_file() for f in folders[:5])


def test_runs_that_start_together_have_a_default_folder_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ready, placed = Barrier(8), Barrier(8)

    def start(_):
        ready.wait()
        with api._place(None, "digits-er-s0") as folder:
            placed.wait()
            return folder.name

    with ThreadPoolExecutor(8) as together:
        folders = set(together.map(start, range(8)))
    assert folders == {"digits-er-s0", *(f"digits-er-s0-{number}" for number in range(2, 9))}


def test_a_mistake_leaves_no_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (moca.run, moca.compare):
        with pytest.raises(MocaError, match="too few for 11 tasks"):
            call(**FAST | {"tasks": 11})
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    for call in (moca.run, moca.compare):
        with pytest.raises(MocaError, match="cannot be written") as error:
            call(**FAST, out=file / "run")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learner": "er_acr"}, "unknown learner 'er_acr'; did you mean 'er_ace'"),
        ({"perturb": "gausian"}, "unknown perturbation 'gausian'; did you mean 'gaussian'"),
        ({"data": "digit"}, "unknown data set 'digit' .*; did you mean 'digits'"),
        ({"epoch": 3}, "unknown option 'epoch' of run; did you mean 'epochs'"),
        ({"perturb": {"name": "wap", "step": 3}}, "unknown option 'step' of 'wap'; did you mean 'steps'"),
        ({"memory": 0}, "memory must be at least 1"),
        ({"memory": 0, "learner": "derpp"}, "memory must be at least 1"),
        ({"tasks": 11}, "too few for 11 tasks"),
        ({"class_order": (0, 1)}, "each of the classes 0 to 9 exactly once"),
        ({"learner": "finetune", "perturb": "vt"}, "'finetune' cannot take 'vt': it replays nothing"),
        *(({"perturb": {"name": "vt", "lambda": v}}, "perturb.lambda") for v in (-1, float("nan"), float("inf"))),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(tmp_path, settings, words):
    with pytest.raises(MocaError, match=words) as error:
        moca.run(**settings, out=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("call", "keyword", "said"),
    [
        (moca.compare, "job", "unknown option 'job' of compare; did you mean 'jobs'?"),
        (moca.run, "pogress", "unknown option 'pogress' of run; did you mean 'progress'?"),
        (moca.run, "jobs", "unknown option 'jobs' of run; it is for several runs: use moca.compare"),
        (moca.run, "buffer_size", "unknown option 'buffer_size' of run; it is called memory= here"),
        (moca.run, "lam", "unknown option 'lam' of run; it is an option of what perturb= names: "
         "perturb=NAME:lambda=... (moca ls NAME)"),
        (partial(moca.resume, "run"), "keepmodel", "unknown option 'keepmodel' of resume; did you mean 'keep_model'?"),
        (partial(moca.analyse, "run"), "agian", "unknown option 'agian' of analyse; did you mean 'again'?"),
    ],
)  # fmt: skip
def test_a_mistaken_keyword_says_what_it_is_called(call, keyword, said):
    with pytest.raises(MocaError) as error:
        call(**{keyword: 2})
    assert str(error.value) == said


def test_what_comes_back_can_be_used_from_another_folder(tmp_path, monkeypatch):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result, comparison = moca.run(**FAST, out="a"), moca.compare(**FAST, perturb=["none", "gaussian"])
    loaded, chosen = moca.Result.load("a"), moca.compare(**FAST | {"lr": [0.01, 0.1]}, choose=0.2, out="c")
    monkeypatch.chdir(tmp_path / "there")
    assert moca.analyse(result)["confusion"]
    assert (loaded.folder / "result.json").is_file()
    comparison.save()
    chosen.save()
    moca.load_model(result.folder)
    assert not list((tmp_path / "there").iterdir())
    assert {row.label for row in comparison.rows} == {"er", "er+gaussian"}


def test_memory_0_is_fine_where_nothing_is_replayed(tmp_path):
    assert moca.run(**FAST | {"memory": 0}, learner="finetune", out=tmp_path / "run").status == "finished"


def test_resuming_a_folder_without_a_run(tmp_path):
    with pytest.raises(MocaError, match="is not a run folder"):
        moca.resume(tmp_path / "nothing")


@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_shown_only_if_wanted(tmp_path, capsys, shown):
    moca.run(**FAST, out=tmp_path / "run", progress=shown)
    assert ("/s " in capsys.readouterr().err) == shown


@pytest.mark.parametrize("shown", [True, False])
def test_reading_a_folder_is_shown_on_a_terminal(tmp_path, capsys, monkeypatch, shown):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("MOCA_DATA", str(tmp_path / "store"))
    for number, call in enumerate((moca.run, partial(moca.compare, seeds=1))):
        source = made.folder(tmp_path / f"flowers{number}", made.small_set(train=20, test=20, seed=number))
        call(**FAST | {"tasks": 1}, data=source, out=tmp_path / f"run{number}", progress=shown)
        assert ("reading" in capsys.readouterr().err) == shown


def test_the_number_of_seeds_may_be_a_numpy_integer(tmp_path):
    with pytest.raises(MocaError, match="nothing to run"):
        moca.compare(seeds=np.int64(0), out=tmp_path / "none")


def test_a_method_has_one_name_and_is_found_by_any_spelling(tmp_path):
    out = tmp_path / "three"
    fresh = moca.compare(methods=["er+gaussian:lambda=2", "er", "er+wap:lambda=0.5"], epochs=1, out=out)
    assert list(fresh) == ["er+gaussian:lambda=2.0", "er", "er+wap"], "0.5 is the recipe's lambda"
    for found in (fresh, moca.Comparison.load(out)):
        assert set(found) == set(fresh)
        assert found["er+gaussian:lambda=2"].label == found["er+gaussian:lambda=2.0"].label == "er+gaussian:lambda=2.0"
        assert found["er+wap:lambda=0.5"].label == found["er+wap epochs=1"].label == "er+wap"
        for another in ("er+gaussian", "er+wap epochs=2", "er+wap epochs", "er:adjust=1", ""):
            with pytest.raises(moca.MocaError, match=re.escape(f"no method '{another}' was compared")):
                found[another]


@pytest.mark.filterwarnings("ignore:the features of the frozen convnet are those of an untrained network")
@pytest.mark.parametrize("own", [{"frozen": "convnet"}, {"data": "named digits"}], ids=["frozen", "data"])
def test_a_recipe_that_is_not_the_known_sets_names_no_options(tmp_path, own):
    """Features of a frozen encoder, and data from Python named like a known set, are trained by another recipe."""
    images, labels = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 4
    if "data" in own:
        own = {"data": moca.dataset((images, labels), name="digits")}
    found = moca.compare(perturb=["none", "gaussian"], seeds=1, epochs=1, out=tmp_path / "two", **own)
    assert list(found) == ["er", "er+gaussian"]


def test_a_name_that_fits_several_methods_is_refused(tmp_path):
    found = moca.compare(memory=[10, 20], epochs=1, out=tmp_path / "both")
    assert found["er memory=20"].run.memory.size == 20
    with pytest.raises(moca.MocaError, match="several methods are called 'er': er memory=10, er memory=20; name one"):
        found["er"]


def test_methods_are_a_list():
    with pytest.raises(moca.MocaError, match="methods must be a list such as"):
        moca.compare(methods={"er": "wap"})


def test_runs_of_joint_training_that_an_older_moca_made_for_each_memory_count_once(tmp_path):
    few = {name: value for name, value in FAST.items() if name != "memory"}
    for size in (20, 40):
        moca.run(learner="joint", memory=size, out=tmp_path / f"joint_memory={size}-s0", keep_model=False, **few)
    comparison = moca.compare(learner=["er", "joint"], memory=[20, 40], seeds=1, out=tmp_path, **few)
    assert {row.label: len(row.results) for row in comparison.rows} == {
        "er memory=20": 1,
        "er memory=40": 1,
        "joint": 1,
    }
