import json
import shutil

import pytest

import moca
from moca import MocaError
from moca.data import catalogue
from moca.engine.folder import RunFolder
from moca.report.grouping import labels as labels_of
from moca.report.notes import mixed
from moca.report.page import render
from moca.settings import Run, validate
from tests.report.made_results import analysed, result, written
from tests.report.seen_page import text_of


def place(tmp_path, name, accuracy=0.5, seed=0, **settings):
    return written(result(tmp_path, accuracy, seed, **settings), tmp_path / "runs" / name)


def labels(tmp_path):
    return [row.label for row in moca.Comparison.load(tmp_path / "runs").rows]


def test_runs_at_any_depth_are_found_and_grouped_by_method(tmp_path):
    place(tmp_path, "a", 0.5, 0)
    place(tmp_path, "deep/er/b", 0.7, 1)
    place(tmp_path, "deep/c", 0.9, 0, perturb="wap")
    made = moca.Comparison.load(str(tmp_path / "runs"))
    assert [(row.label, row.values("final_accuracy")) for row in made.rows] == [
        ("er", pytest.approx([0.5, 0.7])), ("er+wap", pytest.approx([0.9]))]  # fmt: skip
    assert repr(made["er+wap"]).startswith("Row(label='er+wap', results=[<Result finished: ")
    apart = moca.Comparison.load([tmp_path / "runs" / "a", tmp_path / "runs" / "deep"])
    assert [len(row.results) for row in apart.rows] == [2, 1]


def test_names_have_the_options_that_vary_or_are_not_the_recipes(tmp_path):
    place(tmp_path, "a", perturb="wap:lambda=0.5")
    place(tmp_path, "b", perturb="wap:lambda=1.5")
    place(tmp_path, "c", learner="er_ace", perturb="gaussian:lambda=2")
    place(tmp_path, "d", learner="derpp", lr=0.5)
    place(tmp_path, "e", learner="mir", lr=0.5)
    place(tmp_path, "f", learner="mir", lr=0.25)
    assert labels(tmp_path) == [
        "er+wap:lambda=0.5", "er+wap:lambda=1.5", "derpp", "er_ace+gaussian:lambda=2.0",
        "mir lr=0.25", "mir lr=0.5"]  # fmt: skip


def test_a_name_does_not_depend_on_how_many_seeds_there_are(tmp_path):
    given = [("er", "wap:lambda=0.5", 20), ("er", "wap:lambda=1.5", 20), ("derpp:alpha=0.2", "none", 50)]
    few, many = (
        [validate(Run, {"learner": learner, "perturb": perturb, "memory": memory, "seed": seed})
         for learner, perturb, memory in given for seed in range(seeds)]
        for seeds in (1, 4)
    )  # fmt: skip
    assert str(labels_of(few)[0]) == "er+wap:lambda=0.5 memory=20"
    assert labels_of(many) == [label for label in labels_of(few) for _ in range(4)]


def test_an_option_that_is_not_set_is_not_named(tmp_path):
    place(tmp_path, "a", perturb="gaussian:lambda=1")
    place(tmp_path, "b", perturb="gaussian:fixed_angle=30")
    place(tmp_path, "c", perturb="gaussian:lambda=2")
    assert labels(tmp_path) == [
        "er+gaussian:lambda=1.0", "er+gaussian:lambda=1.0,fixed_angle=30.0", "er+gaussian:lambda=2.0"]  # fmt: skip


def test_options_that_define_a_variant_are_always_named(tmp_path):
    place(tmp_path, "a", learner="er:adjust=auto", perturb="gaussian:fixed_angle=30")
    assert labels(tmp_path) == ["er:adjust=auto+gaussian:fixed_angle=30.0"], "also alone"
    place(tmp_path, "b", learner="er", perturb="gaussian")
    assert labels(tmp_path) == ["er+gaussian", "er:adjust=auto+gaussian:fixed_angle=30.0"]


def test_er_comes_first_then_learners_by_name_with_perturbations_as_in_the_paper(tmp_path):
    methods = ["er", "er+gaussian", "er+vmf", "er+vt", "er+wap", "er+fgsm", "er+mrfa", "agem", "derpp", "derpp+wap",
               "er_ace"]  # fmt: skip
    for name in sorted(methods):
        learner, _, perturb = name.partition("+")
        place(tmp_path, name, learner=learner, perturb=perturb or "none")
    assert labels(tmp_path) == methods


def test_methods_are_sorted_by_number(tmp_path):
    for size in (1000, 200, 30):
        place(tmp_path, str(size), memory=size)
    assert labels(tmp_path) == ["er memory=30", "er memory=200", "er memory=1000"]


def test_the_memory_is_named_wherever_it_varies(tmp_path):
    place(tmp_path, "a", memory=100)
    place(tmp_path, "b", memory=200, learner="derpp")
    assert labels(tmp_path) == ["er memory=100", "derpp memory=200"]


def test_other_conditions_are_named_in_every_method(tmp_path):
    place(tmp_path, "a", memory=100, batch=1)
    place(tmp_path, "b", memory=100, learner="derpp", lr=9)
    place(tmp_path, "c", memory=200, learner="pass", classes="unknown")
    assert labels(tmp_path) == [
        "er classes=known batch=1", "derpp classes=known batch=32", "pass classes=unknown batch=32"], (
        "PASS keeps no samples, so there is one memory")  # fmt: skip


def test_what_varies_for_one_learner_is_named_even_where_names_differ_already(tmp_path):
    place(tmp_path, "a", epochs=2, lr=0.01)
    place(tmp_path, "b", epochs=4, lr=0.1)
    place(tmp_path, "c", epochs=4, lr=0.1, perturb="vt")
    place(tmp_path, "d", epochs=4, lr=0.2, learner="derpp")
    place(tmp_path, "e", epochs=4, lr=0.1, learner="teacher:of=er")
    place(tmp_path, "f", epochs=4, lr=0.2, learner="teacher:of=derpp")
    assert labels(tmp_path) == [
        "er epochs=2 lr=0.01", "er epochs=4 lr=0.1", "er+vt epochs=4 lr=0.1", "derpp epochs=4",
        "teacher:of=derpp epochs=4", "teacher:of=er epochs=4"], (
        "other learners have recipes of their own, which a teacher takes from the one it is of")  # fmt: skip


def test_the_machine_is_not_part_of_the_method(tmp_path):
    place(tmp_path, "a", seed=0, threads=1)
    place(tmp_path, "b", seed=1, threads=4, device="cpu", data_dir="/elsewhere")
    assert labels(tmp_path) == ["er"]


def test_streams_are_kept_apart(tmp_path):
    place(tmp_path, "a")
    place(tmp_path, "b", validation=0.1)
    place(tmp_path, "c", data="mnist")
    place(tmp_path, "d", arrival="classes:blur=0.5")
    made = moca.Comparison.load(tmp_path / "runs")
    assert [[row.label for row in setting.rows] for setting in made.settings] == [["er"]] * 4
    titles = [setting.title for setting in made.settings]
    assert len(set(titles)) == 4 and "held-out" in titles[-1] and titles[1].startswith("mnist")
    assert [row.label for row in made.rows] == [f"er ({title})" for title in titles], "names are told apart, too"


def test_folders_of_the_same_name_with_different_images_are_kept_apart(tmp_path):
    for number, (site, images) in enumerate((("north", "abc"), ("south", "def"))):
        made = result(tmp_path, 0.5 + 0.1 * number, 0, data=f"{site}/photos")
        made.environment = made.environment | {"data": images}
        written(made, tmp_path / "runs" / site)
    found = moca.Comparison.load(tmp_path / "runs")
    assert [row.values("final_accuracy") for row in found.rows] == [[0.5], [0.6]], "neither is the other's twin"
    assert [setting.title for setting in found.settings] == [
        f"photos, 3 tasks, data {site}/photos" for site in ("north", "south")
    ]


@pytest.mark.parametrize("name", ["photos", "mnist"])
def test_runs_on_the_same_folder_are_told_apart_by_fingerprint(tmp_path, name):
    """Also where it is called like a set that moca knows; a run of an older moca, which says nothing, is no other."""

    def done(run, accuracy, seed, images):
        made = result(tmp_path, accuracy, seed, data=f"/somewhere/{name}")
        made.environment = {k: v for k, v in (made.environment | {"data": images}).items() if v}
        written(made, tmp_path / "runs" / run)

    done("a", 0.5, 0, "")
    done("b", 0.6, 1, "abcdefghij/weights")
    done("c", 0.7, 2, "abcdefghij")
    assert [[r.folder.name for r in row.results] for row in moca.Comparison.load(tmp_path / "runs").rows] == [[*"abc"]]
    done("d", 0.8, 0, "klmnopqrst")
    found = moca.Comparison.load(tmp_path / "runs")
    assert [[r.folder.name for r in row.results] for row in found.rows] == [[*"abc"], ["d"]]
    assert [setting.title for setting in found.settings] == [
        f"{name}, 3 tasks, images {it}" for it in ("abcdefgh", "klmnopqr")
    ]


def test_a_different_copy_of_a_known_set_is_another_data_set(tmp_path):
    """As of a few images, kept with --allow-differences to try something; runs of an older moca had the right ones."""
    right = catalogue.known("cifar10").fingerprint
    for seed, images in enumerate(("abcdefghij", "", right)):
        made = result(tmp_path, 0.5, seed, data="cifar10")
        made.environment = {k: v for k, v in (made.environment | {"data": images}).items() if v}
        written(made, tmp_path / "runs" / str(seed))
    found = moca.Comparison.load(tmp_path / "runs")
    assert [[r.folder.name for r in row.results] for row in found.rows] == [["0"], ["1", "2"]]
    assert [setting.title.rpartition(", ")[2] for setting in found.settings] == [
        "images abcdefgh",
        f"images {right[:8]}",
    ]


def test_tasks_that_were_left_open_are_those_of_the_protocol(tmp_path):
    one = place(tmp_path, "a", data="cifar100", protocol="offline", tasks=5)
    two = place(tmp_path, "b", seed=1, data="cifar100", tasks=5)
    for folder, tasks in ((one, None), (two, [20] * 5)):
        settings = json.loads((folder / "settings.json").read_text())
        (folder / "settings.json").write_text(json.dumps(settings | {"tasks": tasks}))
    (setting,) = moca.Comparison.load(tmp_path / "runs").settings
    assert setting.title == "cifar100, offline, 5 tasks"


def test_runs_that_cannot_be_compared_are_named(tmp_path):
    fine = place(tmp_path, "fine")
    shutil.copytree(fine, tmp_path / "runs" / "twin")
    older = place(tmp_path, "older", seed=1)
    settings = json.loads((older / "settings.json").read_text())
    (older / "settings.json").write_text(json.dumps(settings | {"warp": 9}))
    (place(tmp_path, "torn", seed=2) / "result.json").write_text('{"status": "fin')
    (place(tmp_path, "thin", seed=3) / "result.json").write_text('{"status": "finished", "accuracy_matrix": []}')
    empty = place(tmp_path, "empty", seed=5) / "result.json"
    empty.write_text(json.dumps(json.loads(empty.read_text()) | {"accuracy_matrix": [[]]}))
    place(tmp_path, "wild", [[0.1, 0.1, 0.1]], 4, status="diverged", message="the loss is no number")
    RunFolder.create(tmp_path / "runs" / "stopped", validate(Run, {})).release()
    running = RunFolder.create(tmp_path / "runs" / "running", validate(Run, {}))
    made = moca.Comparison.load(tmp_path / "runs")
    running.release()
    assert [r.folder.name for r in made.results] == ["fine", "wild"]
    assert [r.folder.name for r in made.rows[0].finished] == ["fine"], "a seed that diverged counts as one that is lost"
    told = {reason.partition(": ")[0].rpartition("/")[2]: reason.partition(": ")[2] for reason in made.left_out}
    assert told.keys() == {"twin", "older", "torn", "thin", "empty", "stopped", "running"}
    assert told["twin"].startswith("the same settings and seed as") and told["twin"].endswith("fine")
    assert "warp" in told["older"]
    assert "result.json cannot be read" in told["torn"] and "result.json" in told["thin"]
    assert "result.json cannot be read (its numbers do not belong together)" in told["empty"]
    assert told["running"] == "still running"
    assert told["stopped"].startswith("stopped before its end; resume it with: moca resume ")


def test_runs_of_a_comparison_that_have_not_begun_are_named(tmp_path):
    place(tmp_path, "s2/er-s0")
    folder = tmp_path / "runs" / "s2"
    asked = {"options": {}, "runs": ["er-s0", "er+wap-s0", "er+wap-s1"]}
    (folder / "compare.json").write_text(json.dumps(asked))
    told = [f"{folder}/er+wap-s{seed}: not begun; begin it with: moca resume {folder}" for seed in (0, 1)]
    assert moca.Comparison.load(folder).left_out == told
    assert moca.Comparison.load(tmp_path / "runs").left_out == told
    assert moca.Comparison.load(folder / "er-s0").left_out == [], "only this run was asked for"
    (folder / "compare.json").write_text("{")
    assert moca.Comparison.load(folder).left_out == []


def test_joint_training_of_comparisons_with_other_memories_is_one_method(tmp_path):
    for seed, size in enumerate((20, 50)):
        place(tmp_path, f"er{size}", memory=size)
        place(tmp_path, f"joint{size}", [[0.1] * 3, [0.9] * 3], seed, learner="joint", memory=size)
    assert labels(tmp_path) == ["er memory=20", "er memory=50", "joint"]


def test_of_duplicates_the_analysed_one_is_kept(tmp_path):
    place(tmp_path, "a")
    analysed(result(tmp_path, 0.5), place(tmp_path, "b"))
    (place(tmp_path, "c") / "analysis.json").write_text("{")
    made = moca.Comparison.load(tmp_path / "runs")
    assert [r.folder.name for r in made.results] == ["b"]
    assert all(reason.endswith(f"the same settings and seed as {tmp_path / 'runs' / 'b'}") for reason in made.left_out)
    assert len(made.left_out) == 2


def test_of_duplicates_the_finished_one_is_kept(tmp_path):
    analysed(result(tmp_path, 0.5), place(tmp_path, "wild", [[0.1, 0.1, 0.1]], status="diverged"))
    place(tmp_path, "well")
    (kept,) = moca.Comparison.load(tmp_path / "runs").results
    assert kept.folder.name == "well"


def test_of_a_duplicate_with_another_accuracy_both_are_told(tmp_path):
    place(tmp_path, "a", 0.7935)
    place(tmp_path, "b", 0.7935)
    older = result(tmp_path, 0.7142)
    older.environment = older.environment | {"moca": "0.0.9", "device": "NVIDIA H200"}
    written(older, tmp_path / "runs" / "c")
    same = f"the same settings and seed as {tmp_path / 'runs' / 'a'}"
    assert moca.Comparison.load(tmp_path / "runs").left_out == [
        f"{tmp_path / 'runs' / 'b'}: {same}",
        f"{tmp_path / 'runs' / 'c'}: {same}, but differs: 71.42 % against 79.35 %, moca 0.0.9 / 0.1.0, "
        "on NVIDIA H200 / x86_64",
    ]


def test_means_over_runs_of_several_versions_or_devices_are_said_to_be(tmp_path):
    place(tmp_path, "a")
    place(tmp_path, "b", perturb="wap")
    for name, about in (("c", {"moca": "0.2.0"}), ("d", {"moca": "0.2.0", "device": "NVIDIA H200"})):
        made = result(tmp_path, 0.5, 1, perturb="wap" if name == "d" else "none")
        made.environment = made.environment | about
        written(made, tmp_path / "runs" / name)
    found = moca.Comparison.load(tmp_path / "runs")
    versions, devices = "a mean over runs of moca 0.1.0 and 0.2.0", "a mean over runs on NVIDIA H200 and x86_64"
    assert mixed(found.rows) == {versions: ["er", "er+wap"], devices: ["er+wap"]}
    assert f"er, er+wap: {versions}" in text_of(render(found))


def test_runs_whose_own_parts_are_in_a_file_that_is_not_here_are_reported(tmp_path):
    """What settings.json has of a learner or an encoder, name and options, is all that a report needs."""
    methods = [(alpha, perturb) for alpha in (0.1, 0.3) for perturb in ("none", "wap")]
    for number, (alpha, perturb) in enumerate(methods):
        settings = {"learner": f"derpp:alpha={alpha}", "model": "mlp:width=8", "perturb": perturb}
        file = place(tmp_path, str(number), 0.5 + number / 100, **settings) / "settings.json"
        saved = json.loads(file.read_text())
        saved["learner"]["name"], saved["model"]["name"] = "elsewhere.Mine", "elsewhere.net"
        file.write_text(json.dumps(saved))
    found = moca.Comparison.load(tmp_path / "runs")
    mine = [f"elsewhere.Mine:alpha={alpha}{'+wap' * (perturb == 'wap')}" for alpha, perturb in methods]
    assert {row.label for row in found.rows} == {*mine} and found.left_out == []
    (setting,) = found.settings
    assert [setting.own_learner(found[label]).label for label in mine[1::2]] == mine[::2]
    page = text_of(render(found))
    assert "--learner elsewhere.Mine:" in page and "alpha=0.3" in page, "the command has every option"
    with pytest.raises(MocaError, match=r"run '.*/0' cannot be used here: learner 'elsewhere.Mine' cannot be loaded"):
        moca.analyse(tmp_path / "runs" / "0")


def test_nothing_to_compare(tmp_path):
    place(tmp_path / "lost", "wild", [[0.1, 0.1, 0.1]], status="diverged", message="the loss is no number")
    with pytest.raises(MocaError, match=r"no finished run in .*wild: the loss is no number; moca runs lists"):
        moca.Comparison.load(tmp_path / "lost")
    with pytest.raises(MocaError, match=r"folder '.*nowhere' does not exist"):
        moca.Comparison.load(tmp_path / "nowhere")
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(MocaError, match=r"no finished run in .*; moca runs lists what is there"):
        moca.Comparison.load(empty)
    with pytest.raises(MocaError, match="give at least one folder"):
        moca.Comparison.load([])


def test_sections_on_held_out_images_come_last(tmp_path):
    place(tmp_path, "a", validation=0.1)
    place(tmp_path, "b")
    made = moca.Comparison.load(tmp_path / "runs")
    titles = [setting.title for setting in made.settings]
    assert titles == ["digits, 3 tasks", "digits, 3 tasks, on held-out training images"]
    assert str(made).count("of a single seed, on held-out images") == 1
