"""Somebody at the only door to the network."""

import socket

import pytest


class Listener:
    """Where all calls would arrive."""

    def __init__(self, door):
        self.door, self.address = door, f"http://127.0.0.1:{door.getsockname()[1]}"

    def came(self):
        """Whether anybody has called since."""
        try:
            self.door.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def calls(monkeypatch):
    """Every proxy leads there."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        door.setblocking(False)
        listener = Listener(door)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, listener.address)
            monkeypatch.setenv(name.lower(), listener.address)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield listener
