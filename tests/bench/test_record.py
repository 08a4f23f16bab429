import json

import pytest
import torch

from moca.bench import Record, cells
from moca.bench.cells import Configuration, attempt, configurations
from moca.errors import MocaError

CUDA = torch.device("cuda")
CPU = torch.device("cpu")


def test_what_is_measured_on_a_gpu(make_settings):
    wanted = configurations(make_settings(methods=["er", "derpp"], packed=["1", "4"]), CUDA)
    ways = ("eager", "compiled", "captured", "captured x4")
    assert [str(c) for c in wanted] == [
        "er official",
        *(f"er {way}" for way in ways),
        *(f"derpp {way}" for way in ways),
    ]
    unasked = configurations(make_settings(methods="er", twin=False), CUDA)
    assert [str(c) for c in unasked] == [
        *("er eager", "er compiled"),
        *("er captured", "er captured x2", "er captured x4", "er captured x8"),
    ]


def test_what_is_measured_on_the_cpu(make_settings):
    assert configurations(make_settings(methods="er", twin=False), CPU) == [Configuration("er", "eager")]
    asked = make_settings(methods="er", twin=False, ways=["eager", "compiled"])
    assert configurations(asked, CPU) == [Configuration("er", "eager"), Configuration("er", "compiled")]


def test_packing_of_steps_that_are_not_captured_is_a_cell_that_says_why(make_settings):
    wanted = configurations(make_settings(methods="er", ways="eager", packed="2", twin=False), CUDA)
    assert [str(c) for c in wanted] == ["er eager", "er eager x2"]


def test_packing_can_be_skipped(make_settings):
    wanted = configurations(make_settings(methods="er", ways="captured", packed="none", twin=False), CUDA)
    assert wanted == [Configuration("er", "captured")]


@pytest.fixture(scope="module")
def record(make_settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "made" / "here.json"
    settings = make_settings(methods=["er", "er+wap", "derpp"], ways=["eager", "captured"], packed=["1", "2"])
    record = Record(settings, out, "moca bench ...")
    told = []
    written = [len(json.loads(out.read_text())["cells"]) for _ in record.measure(lambda *place: told.append(place))]
    assert written == list(range(1, len(record.cells) + 1)), "the file is written after every cell"
    assert told == [(i, len(told), cell.configuration) for i, cell in enumerate(record.cells, 1)]
    return record


def test_the_file_has_every_cell_and_what_it_was_measured_on(record):
    made = json.loads(record.out.read_text())
    places = [(c["method"], c["way"], c["runs"]) for c in made["cells"]]
    ways = [("official", 1), ("eager", 1), ("captured", 1), ("captured", 2)]
    every = [(method, *way) for method in ("er", "er+wap", "derpp") for way in ways]
    assert places == [place for place in every if place != ("derpp", "official", 1)]
    assert record.without_twin == ["derpp"]
    assert made["command"] == "moca bench ..."
    assert made["settings"]["width"] == 4
    assert made["versions"]["torch"] == torch.__version__
    assert made["hardware"]["threads"] == 1
    assert made["hardware"]["cores"] >= 1
    assert made["hardware"]["cpu"]


def test_a_cell_has_a_time_or_a_reason(record):
    for entry in json.loads(record.out.read_text())["cells"]:
        assert (entry["ms"] is None) == bool(entry["reason"])
        if entry["ms"]:
            ms = entry["ms"]
            assert 0 < ms["min"] <= ms["median"] <= ms["max"]
            assert (ms["blocks"], ms["steps"]) == (2, 1)
            images = 12 if entry["method"] == "derpp" else 8
            assert entry["images_per_second"] == pytest.approx(1e3 * images / ms["median"])
            assert entry["tflops_per_second"] == pytest.approx(1e-9 * entry["flops"] / ms["median"])
            assert entry["memory"]["process"] > 2**20


def test_what_cannot_run_here_says_why(record):
    reasons = {str(cell.configuration): cell.reason for cell in record.cells if cell.reason}
    for method in ("er", "er+wap", "derpp"):
        assert "needs a CUDA device" in reasons.pop(f"{method} captured")
        assert "several runs at once need a CUDA device" in reasons.pop(f"{method} captured x2")
    assert not reasons


def test_how_cells_compare(record):
    entries = {str(c.configuration): record.entry(c) for c in record.cells}
    ms = {name: entry["ms"]["median"] for name, entry in entries.items() if entry["ms"]}
    assert entries["er+wap eager"]["over_er"] == pytest.approx(ms["er+wap eager"] / ms["er eager"] - 1)
    assert entries["er+wap official"]["over_er"] == pytest.approx(ms["er+wap official"] / ms["er official"] - 1)
    assert entries["er eager"]["times_twin"] == pytest.approx(ms["er official"] / ms["er eager"])
    assert entries["derpp eager"]["times_twin"] is None
    assert entries["derpp eager"]["flops_over_er"] == 1.5, "new, and two draws"


def test_a_failure_is_one_line_and_no_crash(make_settings, monkeypatch):
    def fails(*args):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.\nTried to allocate a lot")

    monkeypatch.setattr(cells, "time_steps", fails)
    record = Record(make_settings(methods="er", ways="eager", twin=False))
    assert [cell.reason for cell in record.measure()] == ["OutOfMemoryError: CUDA out of memory."]


def test_ctrl_c_is_no_failure_of_a_cell():
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(stop)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(make_settings, tmp_path):
    (tmp_path / "file").write_text("")
    record = Record(make_settings(methods="er"), tmp_path / "file" / "bench.json")
    with pytest.raises(MocaError, match="cannot be written"):
        next(record.measure())
    assert record.cells == []


def test_a_file_that_is_there_is_kept(make_settings, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text("years of work")
    with pytest.raises(MocaError, match="exists already"):
        next(Record(make_settings(methods="er", ways="eager", twin=False), mine).measure())
    assert mine.read_text() == "years of work"


def test_without_a_count_of_the_arithmetic_the_rest_is_there(make_settings):
    (cell,) = Record(make_settings(methods="er+fgsm", ways="eager", twin=False)).measure()
    assert cell.timing
    assert cell.work.images == 8
