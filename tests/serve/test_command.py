"""`moca serve` as a person types it."""

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from datetime import datetime

import httpx
import pytest

from moca import cli
from moca.serve.run import bound
from tests.serve.conftest import files, until
from tests.serve.test_teaching import endless


def typed(*words, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["serve", *map(str, words)])
    said = capsys.readouterr()
    assert exit.value.code == 1
    assert said.err.startswith("moca: ") and said.err.count("\n") == 1
    return said.err


def test_ctrl_c_ends_it_during_a_lesson(model, capsys, monkeypatch):
    endless(model)
    monkeypatch.delenv("MOCA_API_KEY", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    seen = []

    def person():
        try:
            with httpx.Client(base_url=f"http://localhost:{port}", timeout=30) as client:
                until(lambda: _answers(client), bool)
                seen.append(client.post("/api/predict", files=files(0, 1)).status_code)
                seen.append(client.post("/api/teach", files=files(2, 6), data={"class": "bar 2"}).status_code)
                until(lambda: client.get("/api/teach").json(), lambda lesson: lesson["done"] > 0, pause=0.2)
                seen.append("learning")
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=person)
    thread.start()
    with pytest.raises(SystemExit) as exit:
        cli.main(["serve", str(model.path), "--port", str(port), "--device", "cpu"])
    thread.join()
    said = capsys.readouterr()
    assert seen == [200, 202, "learning"]
    assert (exit.value.code, said.err) == (0, "")
    first, second, logged, last = said.out.splitlines()
    assert first == f"{model.path}, version 1, 2 classes: http://127.0.0.1:{port}"
    assert (second, last) == ("Ctrl-C stops it.", "Stopped.")
    assert datetime.fromisoformat(logged[:19]) <= datetime.now()
    assert logged[19:] == " lesson of 'bar 2' from 6 images: the lesson was stopped; the model is unchanged"
    assert (model.current, model.next) == (1, 2)
    with model.teaching():
        pass


def _answers(client):
    with suppress(httpx.ConnectError):
        return client.get("/api/health").is_success
    return False


def test_what_is_wrong_is_told_in_one_line(model, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("MOCA_API_KEY", raising=False)
    assert "there is no model '" in typed(tmp_path / "none", capsys=capsys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = typed(model.path, "--port", port, capsys=capsys)
        assert f"port {port} of 127.0.0.1 cannot be used" in said and "--port" in said
    assert "it needs a key; for example" in typed(model.path, "--host", "0.0.0.0", capsys=capsys)
    assert "8 or more plain characters" in typed(model.path, "--api-key", "short", capsys=capsys)
    assert "is not an address of this machine" in typed(model.path, "--host", "no.such.host.invalid", capsys=capsys)
    assert "there is no port 70000" in typed(model.path, "--port", "70000", capsys=capsys)
    assert "no room for one request of --max-mb 64" in typed(model.path, "--max-waiting-mb", "9", capsys=capsys)
    for limit in (("--max-images", "0"), ("--max-mb", "1e308"), ("--max-megapixels", "inf"), ("--rate", "nan")):
        assert "limits are finite numbers above 0" in typed(model.path, *limit, capsys=capsys)
    (model.path / "versions" / "1" / "state.pt").write_bytes(b"broken")
    assert "is damaged: versions/1/state.pt cannot be read" in typed(model.path, "--port", "0", capsys=capsys)
    monkeypatch.setattr(sys.modules["moca.cli.serve"], "find_spec", lambda name: None if name == "uvicorn" else name)
    assert "pip install 'moca-cl[serve]'" in typed(model.path, capsys=capsys)


def test_answers_do_not_wait_for_receipts():
    """asyncio sends at once only where the socket says that it is TCP; elsewhere small answers take 40 ms longer."""
    with bound(socket.AF_INET, "127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
