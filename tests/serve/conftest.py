"""A small model, and real servers of it."""

import socket
import threading
import time
from contextlib import contextmanager
from io import BytesIO
from multiprocessing import forkserver
from shutil import copytree

import httpx
import numpy as np
import pytest
from PIL import Image

from moca.classifier import ModelFolder
from moca.classifier.lesson import teach
from moca.serve import app as service
from moca.serve import teaching
from moca.serve.current_version import InUse
from moca.serve.limits import Limits
from moca.serve.run import bound, server_of
from moca.serve.teaching import LessonRules, Teaching
from tests.classifier.conftest import bars

QUICK = {"encoder": "convnet:width=4,features=8", "epochs": 20, "memory": 60}


def png(image):
    file = BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def files(label, count, seed=5):
    """As httpx takes them: new images of a bar."""
    return [("images", (f"{label}-{n}.png", png(image))) for n, image in enumerate(bars(label, count, seed))]


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A model of two classes."""
    teaching._context()
    forkserver.ensure_running()  # lessons need it; it loads while other tests are at work
    path = tmp_path_factory.mktemp("template") / "bars"
    images, names = np.concatenate([bars(0, 20), bars(1, 20)]), ["bar 0"] * 20 + ["bar 1"] * 20
    teach(ModelFolder(path), images, names, options=QUICK, device="cpu")
    return path


@pytest.fixture
def model(template, tmp_path):
    """A copy that may be taught."""
    return ModelFolder(copytree(template, tmp_path / "bars"))


@contextmanager
def serving(path, *, limits=None, rules=None, key=None, taught=True, version=None, log=str):
    """A client of a server that really listens."""
    rules = rules or LessonRules(device="cpu")
    in_use = InUse(path, "cpu", version, log)
    teacher = Teaching(in_use.folder, rules, in_use.look, log) if taught else None
    server = server_of(service.create_app(in_use, teacher, limits or Limits(rate=0), key))
    with bound(socket.AF_INET, "127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def client(template):
    """Of a server that nothing changes."""
    with serving(template) as client:
        yield client


def until(told, wanted, seconds=60, pause=0.05):
    """What is told, once it is as wanted."""
    end = time.monotonic() + seconds
    while not wanted(found := told()):
        assert time.monotonic() < end, found
        time.sleep(pause)
    return found
