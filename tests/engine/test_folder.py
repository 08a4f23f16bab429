"""The run folder: never somebody else's, never half a file."""

import json

import pytest
import torch

from moca import MocaError
from moca.engine.folder import RunFolder
from moca.settings import Run, validate

SETTINGS = validate(
    Run, {"perturb": "wap:lambda=1.5", "seed": "3:init=4", "schedule": "steps:at=1,2", "class_order": "random"}
)
CPU = torch.device("cpu")


def test_settings_come_back_as_they_were(tmp_path):
    RunFolder.create(tmp_path / "a" / "b", SETTINGS)
    assert RunFolder.open(tmp_path / "a" / "b").settings() == SETTINGS
    assert json.loads((tmp_path / "a" / "b" / "settings.json").read_text())["perturb"]["lambda"] == 1.5


def test_an_empty_folder_can_be_used(tmp_path):
    RunFolder.create(tmp_path, SETTINGS)
    assert {p.name for p in tmp_path.iterdir()} == {"settings.json", "lock"}


def test_a_used_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(MocaError, match="already used; choose another with out=") as error:
        RunFolder.create(tmp_path, SETTINGS)
    assert "\n" not in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("inside", ["", "run"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path, inside):
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(MocaError, match="cannot be written") as error:
        RunFolder.create(file / inside, SETTINGS)
    assert "\n" not in str(error.value)


def test_where_nothing_can_be_written_the_advice_is_one_that_can_be_followed(tmp_path):
    """Only a new run can be written elsewhere; one that has ended cannot be resumed."""
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(MocaError, match=r"; fix that, or choose another folder with out=$"):
        RunFolder.create(file, SETTINGS)
    folder = RunFolder.create(tmp_path / "run", SETTINGS)
    (folder.path / "tasks.jsonl").mkdir()
    with pytest.raises(MocaError, match=r"; fix that and resume \(moca resume, or the same comparison again\)$"):
        folder.append("tasks.jsonl", [{}])
    (tmp_path / "compare.json").write_text("{}")
    with pytest.raises(MocaError, match="; fix that and resume"):
        RunFolder.create(file, SETTINGS)
    folder.write_json("result.json", {})
    (folder.path / "analysis.json.part").mkdir()
    with pytest.raises(MocaError, match=r"; fix that, or copy the run to another place and use the copy$"):
        folder.write_json("analysis.json", {})


def test_only_a_run_folder_can_be_opened(tmp_path):
    with pytest.raises(MocaError, match=r"is not a run folder: it has no settings\.json; moca runs lists the runs"):
        RunFolder.open(tmp_path)
    with pytest.raises(MocaError, match="is not a run folder: there is none of that name; moca runs lists the runs"):
        RunFolder.open(tmp_path / "mistyped")


def test_a_damaged_file_is_named(tmp_path):
    folder = RunFolder.create(tmp_path, SETTINGS)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(MocaError, match=r"cannot read .*settings\.json: it is no JSON; bring it back"):
        folder.settings()
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(MocaError, match=r"cannot read .*result\.json.*; remove it, and the run can be done again"):
        folder.read_json("result.json")


def test_no_number_that_json_does_not_know(tmp_path):
    folder = RunFolder.create(tmp_path, SETTINGS)
    with pytest.raises(ValueError, match="not JSON compliant"):
        folder.write_json("result.json", {"a": float("nan")})
    assert not (tmp_path / "result.json").exists()


def test_loading_a_checkpoint_drops_later_lines(tmp_path):
    folder = RunFolder.create(tmp_path, SETTINGS)
    folder.append("steps.jsonl", [{"step": 1}, {"step": 2}])
    folder.save_checkpoint({"weights": torch.arange(3)})
    folder.append("steps.jsonl", [{"step": 3}])
    folder.append("tasks.jsonl", [{"learned": 0}])
    state = folder.load_checkpoint(CPU)
    assert state["weights"].tolist() == [0, 1, 2]
    assert [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()] == [
        {"step": 1},
        {"step": 2},
    ]
    assert (tmp_path / "tasks.jsonl").read_text() == ""
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    first = RunFolder.create(tmp_path, SETTINGS)
    with pytest.raises(MocaError, match="being written by another process"):
        RunFolder.open(tmp_path).claim()
    first.release()
    second = RunFolder.open(tmp_path)
    second.claim()
    second.write_json("result.json", {"status": "finished"})
    second.finish()
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("content", [b"", b"abc", b"PK\x03\x04 cut off"])
def test_a_damaged_checkpoint_is_named(tmp_path, content):
    folder = RunFolder.create(tmp_path, SETTINGS)
    folder.append("steps.jsonl", [{"step": 1}])
    (tmp_path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(MocaError, match="is damaged; remove it") as error:
        folder.load_checkpoint(torch.device("cpu"))
    assert "\n" not in str(error.value)
    assert (tmp_path / "steps.jsonl").read_text() == '{"step": 1}\n'


def test_a_checkpoint_that_was_cut_off_is_named(tmp_path):
    folder = RunFolder.create(tmp_path, SETTINGS)
    folder.save_checkpoint({"w": torch.zeros(10_000)})
    (tmp_path / "checkpoint.pt").write_bytes((tmp_path / "checkpoint.pt").read_bytes()[:5000])
    with pytest.raises(MocaError, match="is damaged; remove it"):
        folder.load_checkpoint(torch.device("cpu"))


@pytest.mark.parametrize("error", [RuntimeError("CUDA error: out of memory"), torch.OutOfMemoryError("no room")])
def test_a_checkpoint_that_finds_no_memory_is_not_called_damaged(tmp_path, monkeypatch, error):
    def full(*args, **options):
        raise error

    folder = RunFolder.create(tmp_path, SETTINGS)
    folder.save_checkpoint({})
    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(type(error), match=str(error)):
        folder.load_checkpoint(torch.device("cpu"))


def test_a_folder_that_was_hardly_begun_can_be_used(tmp_path):
    (tmp_path / "settings.json.part").write_text("{")
    (tmp_path / "lock").write_text("")
    assert RunFolder.create(tmp_path, SETTINGS).settings() == SETTINGS


def test_the_folder_of_a_comparison_is_told_from_a_run(tmp_path):
    RunFolder.create(tmp_path / "sweep" / "one", SETTINGS)
    told = r"is not a run folder: .*; moca runs .* lists the runs in it, .*Python objects, repeat its call$"
    with pytest.raises(MocaError, match=told):
        RunFolder.open(tmp_path / "sweep")
    with pytest.raises(MocaError, match=r"; moca runs .* lists the comparisons in it, which can be resumed one by one"):
        RunFolder.open(tmp_path)


def test_without_a_checkpoint_there_are_no_lines_yet(tmp_path):
    folder = RunFolder.create(tmp_path, SETTINGS)
    folder.append("steps.jsonl", [{"step": 1}])
    assert folder.load_checkpoint(torch.device("cpu")) is None
    assert (tmp_path / "steps.jsonl").read_text() == ""
