"""TensorBoard's event files, read back with its own reader."""

from importlib.util import find_spec

import pytest

import moca
from moca.engine.tracked import Tracked
from moca.engine.tracking import chosen
from tests.engine.helpers import begin, finish
from tests.engine.test_run import FAST, assert_same_run, interrupt_when, lines

pytestmark = pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs the extra tensorboard")
SHORT = FAST | {"tasks": 2}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def scalars(events, name):
    return [(event.step, event.value) for event in events.Scalars(name)]


def text(events, name):
    return events.Tensors(f"{name}/text_summary")[-1].tensor_proto.string_val[0].decode()


def test_a_whole_run(tmp_path):
    plain = moca.run(**SHORT, out="plain", keep_model=False)
    result = moca.run(**SHORT, out="one", keep_model=False, track="tensorboard:every=10")
    assert_same_run(plain.folder, result.folder)
    events = read("one/tensorboard")
    steps = lines(tmp_path / "one" / "steps.jsonl")
    step, first = scalars(events, "loss/new")[0]
    assert step == 10 and first == pytest.approx(sum(s["loss_new"] for s in steps[:10]) / 10, rel=1e-5)
    assert scalars(events, "class_il/task_2") == [(result.steps, pytest.approx(result.accuracy_matrix[-1][1]))]
    assert [value for _, value in scalars(events, "class_il/mean")][-1] == pytest.approx(result.final_accuracy)
    assert scalars(events, "result/final_accuracy") == [(result.steps, pytest.approx(result.final_accuracy))]
    assert "|memory.size|40|" in text(events, "settings")
    assert text(events, "folder") == str(tmp_path / "one") and text(events, "status") == "finished"
    assert "_hparams_/session_start_info" in events.summary_metadata


def test_a_resumed_run_goes_on_in_the_same_folder(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    half = finish(begin(SHORT, tmp_path / "one", interrupt_when(1), watchers=tracker("tensorboard:every=5,dir=logs")))
    with SummaryWriter("logs/one") as killed:  # as by a run that went on, and was killed before its next checkpoint
        killed.add_scalar("loss/total", 0.0, 10_000)
    result = moca.resume("one", keep_model=False)
    assert [folder.name for folder in (tmp_path / "logs").iterdir()] == ["one"]
    steps = [step for step, _ in scalars(read("logs/one"), "loss/total")]
    assert half.steps in steps and steps[-1] == result.steps
    assert sorted(set(steps)) == steps
    moca.run(**SHORT, out="elsewhere/one", keep_model=False, track="tensorboard:dir=logs")
    assert sorted(folder.name for folder in (tmp_path / "logs").iterdir()) == ["one", "one-2"]


def tracker(spec):
    return [Tracked(choice) for choice in chosen(spec)]
