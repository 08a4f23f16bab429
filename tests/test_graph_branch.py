"""Branches of a recorded graph, with the GPU's part left out: every fork is joined."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

from moca import graph_branch


@pytest.fixture
def log(monkeypatch):
    """What is asked of streams while a graph is recorded on the stream `main`."""
    said = []

    class Stream:
        def __init__(self, name="branch", device=None, priority=0):
            self.name, self.cuda_stream, self.device = name, hash(name), "cuda"

        def wait_event(self, event):
            said.append(f"{self.name} after {event.where}")

        def wait_stream(self, other):
            said.append(f"{self.name} after {other.name}")

    class Event:
        def record(self):
            self.where = "the beginning"

    @contextmanager
    def entered(stream):
        said.append(f"on {stream.name}")
        yield
        said.append("back")

    main = Stream("main")
    monkeypatch.setattr(graph_branch, "_branches", {})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: main)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device, priority: Stream())
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    return said


def test_a_branch_begins_with_the_step_and_is_waited_for(log):
    with graph_branch.step(), graph_branch.branch():
        log.append("work")
    assert log == ["branch after the beginning", "on branch", "work", "back", "main after branch"]


def test_a_second_branch_waits_for_what_came_before_it(log):
    with graph_branch.step():
        for _ in range(2):
            with graph_branch.branch():
                pass
    assert log[0] == "branch after the beginning"
    assert log[4] == "branch after main", "which may still read what the first one made"
    with graph_branch.step(), graph_branch.branch():
        pass
    assert log[8] == "branch after the beginning"


def test_a_branch_is_joined_after_an_error_too(log):
    with pytest.raises(ZeroDivisionError), graph_branch.step(), graph_branch.branch():
        raise ZeroDivisionError
    assert log[-1] == "main after branch"


def test_without_a_recording_there_is_no_branch(log, monkeypatch):
    with graph_branch.branch():
        pass
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with graph_branch.step(), graph_branch.branch():
        pass
    assert not log


def test_the_step_of_another_thread_has_no_branch_here(log):
    def work():
        with graph_branch.branch():
            log.append("work")

    with ThreadPoolExecutor(1) as another, graph_branch.step():
        another.submit(work).result()
    assert log == ["work"]
