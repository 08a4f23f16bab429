"""Weights & Biases offline: its files are there and hold the run, and it calls nobody."""

import json
import struct
import time
import urllib.request
from importlib.util import find_spec

import pytest

import moca
from moca import MocaError
from moca.engine.tracked import Tracked
from moca.engine.tracking import chosen
from tests.engine.helpers import begin, finish
from tests.engine.test_run import FAST, assert_same_run, interrupt_when

pytestmark = pytest.mark.skipif(find_spec("wandb") is None, reason="needs the extra wandb")
SHORT = FAST | {"tasks": 2}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch, calls):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_BASE_URL", calls.address)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)


def records(folder):
    """All that its file says: blocks of 32 KiB, in which pieces of records have a checksum, a length and a kind."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("*.wandb")
    content, place, whole, found = file.read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        if place % 32768 > 32768 - 7:
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        if place + 7 + length > len(content):
            break  # still being written
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # all of one, or the last piece
            found.append(Record.FromString(whole))
            whole = b""
    return found


def test_a_run_that_was_interrupted(tmp_path, calls):
    plain = moca.run(**SHORT, out="plain", keep_model=False)
    (choice,) = chosen("wandb:mode=offline,project=digits,every=10")
    finish(begin(SHORT, tmp_path / "one", interrupt_when(1), watchers=[Tracked(choice)]))
    result = moca.resume("one", keep_model=False)
    assert_same_run(plain.folder, tmp_path / "one")
    first, second = sorted((tmp_path / "one" / "wandb").glob("offline-run-*"))  # by the time in their names
    known = json.loads((tmp_path / "one" / "tracking.json").read_text())["wandb"]["run"]
    assert first.name.endswith(known) and second.name.endswith(known)
    while not (told := records(second)) or told[-1].WhichOneof("record_type") != "exit":
        time.sleep(0.1)  # its own process writes
    (run,) = [record.run for record in told if record.WhichOneof("record_type") == "run"]
    assert (run.run_id, run.project, run.display_name) == (known, "digits", "one")
    config = {update.key: json.loads(update.value_json) for update in run.config.update}
    assert config["memory.size"] == 40 and config["folder"] == str(tmp_path / "one")
    rows = [{i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}
            for record in told if record.WhichOneof("record_type") == "history"]  # fmt: skip
    assert rows[-1]["_step"] == result.steps
    assert rows[-1]["class_il/task_2"] == pytest.approx(result.accuracy_matrix[-1][1])
    assert any("loss/new" in row and "lr" in row for row in rows)
    summary = {i.key or "/".join(i.nested_key): json.loads(i.value_json)
               for record in told if record.WhichOneof("record_type") == "summary"
               for i in record.summary.update}  # fmt: skip
    assert summary["status"] == "finished"
    assert summary["result/final_accuracy"] == pytest.approx(result.final_accuracy)
    assert not calls.came()


def test_a_call_would_be_noticed(calls):
    with pytest.raises(OSError):
        urllib.request.build_opener().open("http://somewhere.invalid/", timeout=0.1)
    assert calls.came() and not calls.came()


def test_online_it_wants_a_key(tmp_path, calls):
    with pytest.raises(MocaError, match="track=wandb has no API key; run wandb login, or write files only with"):
        moca.run(**SHORT, out="one", track="wandb")
    assert not (tmp_path / "one").exists() and not calls.came()
