"""MLflow: a server in a process of its own, and a folder."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import moca
from moca import MocaError, Watcher
from moca.engine.tracked import Tracked
from moca.engine.tracking import chosen
from moca.errors import MocaWarning
from moca.trackers.mlflow import MLflow
from tests.engine.helpers import begin, finish
from tests.engine.test_run import FAST, assert_same_run, interrupt_when

pytestmark = pytest.mark.skipif(find_spec("mlflow") is None, reason="needs the extra mlflow")
SHORT = FAST | {"tasks": 2}
SERVER = "import sys; from mlflow.server import app; app.run(port=int(sys.argv[1]))"
"""The server's own application, without the workers and databases that take `mlflow server` so long to start."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server(tmp_path):
    """Its address, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = str(tmp_path / "store")
    told = {"_MLFLOW_SERVER_FILE_STORE": store, "_MLFLOW_SERVER_ARTIFACT_ROOT": store, "MLFLOW_ALLOW_FILE_STORE": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | told | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with subprocess.Popen([sys.executable, "-c", SERVER, str(port)], env=environment, **quiet) as process:
        yield f"http://127.0.0.1:{port}", process
        process.kill()


def answers(address):
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=1):
            return True
    except OSError:
        return False


class When(Watcher):
    """Does something once a task has been learned."""

    def __init__(self, learned, do):
        self.learned, self.do = learned, do

    def task(self, record):
        if record.learned == self.learned:
            self.do()


def metrics(client, run, name):
    return [(m.step, m.value) for m in sorted(client.get_metric_history(run, name), key=lambda m: m.step)]


def test_a_server_is_told_everything_and_may_go_away(server, tmp_path):
    from mlflow.tracking import MlflowClient

    address, process = server
    plain = moca.run(**SHORT, out="plain", keep_model=False)
    while not answers(address):
        assert process.poll() is None
        time.sleep(0.1)
    spec = f"mlflow:uri={address},experiment=digits,every=10"
    client = MlflowClient(address)

    half = finish(begin(SHORT, tmp_path / "one", interrupt_when(1), watchers=[Tracked(c) for c in chosen(spec)]))
    experiment = client.get_experiment_by_name("digits").experiment_id
    (stopped,) = client.search_runs([experiment])
    assert stopped.info.status == "KILLED" and stopped.data.tags["moca.status"] == "interrupted"
    result = moca.resume("one", keep_model=False)
    (run,) = client.search_runs([experiment])
    assert run.info.run_id == stopped.info.run_id and run.info.run_name == "one"
    assert run.info.status == "FINISHED" and run.data.tags["moca.status"] == "finished"
    assert run.data.tags["moca.folder"] == str(tmp_path / "one")
    assert run.data.params["learner.name"] == "er" and run.data.params["memory.size"] == "40"
    assert run.data.metrics["result/final_accuracy"] == pytest.approx(plain.final_accuracy)
    steps = [step for step, _ in metrics(client, run.info.run_id, "loss/total")]
    assert half.steps in steps and steps[-1] == result.steps and len(set(steps)) == len(steps)
    assert metrics(client, run.info.run_id, "class_il/task_2") == [
        (result.steps, pytest.approx(result.accuracy_matrix[-1][1]))
    ]
    assert_same_run(plain.folder, tmp_path / "one")

    def gone():
        process.kill()
        process.wait()

    with pytest.warns(MocaWarning, match="run 'two' continues, but tracker 'mlflow' failed") as warned:
        moca.run(**SHORT, out="two", keep_model=False, track=spec, watch=When(1, gone))
    assert len(warned) == 1
    assert_same_run(plain.folder, tmp_path / "two")
    with pytest.raises(
        MocaError, match=r"track=mlflow: 'http://.*' cannot be reached \(.*refused\); start it"
    ) as refused:
        moca.run(**SHORT, out="three", track=spec)
    assert "\n" not in str(refused.value) and not (tmp_path / "three").exists()
    assert not any(name.startswith("MLFLOW_HTTP") for name in os.environ)


def test_a_run_whose_settings_could_not_be_sent_is_not_made_again(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    tracker = MLflow(uri=str(tmp_path / "kept"))
    about = SimpleNamespace(folder=tmp_path / "one", name="one", settings={"lr": 0.1})
    monkeypatch.setattr(MlflowClient, "log_batch", lambda *given, **more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tracker.open(about, None)
    monkeypatch.undo()
    run = tracker.open(about, None)
    (only,) = tracker.client.search_runs([tracker.client.get_experiment_by_name("moca").experiment_id])
    assert (only.info.run_id, only.data.params) == (run, {"lr": "0.1"})


def test_a_folder_will_do_and_nobody_is_called(tmp_path, calls):
    from mlflow.tracking import MlflowClient

    result = moca.run(**SHORT, out="one", keep_model=False, track="mlflow:uri=store")
    client = MlflowClient(str(tmp_path / "store"))
    (run,) = client.search_runs([client.get_experiment_by_name("moca").experiment_id])
    assert run.data.metrics["result/final_accuracy"] == pytest.approx(result.final_accuracy)
    assert len(run.data.params) > 40
    assert not calls.came()


def test_a_password_is_not_written_down(tmp_path):
    for uri in ("http://me:hunter22@127.0.0.1:9", "postgresql+psycopg2://me:hunter22@127.0.0.1:9/runs"):
        with pytest.raises(MocaError, match="leave the password out of the uri; put it into") as refused:
            moca.run(**SHORT, out="one", track=f"mlflow:uri={uri}")
        assert "hunter22" not in str(refused.value) and not (tmp_path / "one").exists()
