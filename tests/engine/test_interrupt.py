"""Stopping after a step, and at once."""

import signal

import pytest

from moca.engine import interrupt
from moca.engine.interrupt import Interrupt


def first_ctrl_c():
    """One that must not stop at once; if it does, pytest must not take it for its own."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pytest.fail("stopped at once")


def test_the_first_ctrl_c_stops_after_the_step_and_the_second_at_once(monkeypatch):
    monkeypatch.setattr(interrupt, "_SAME", -1.0)
    with Interrupt() as asked:
        first_ctrl_c()
        assert asked.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_one_ctrl_c_passed_on_twice_is_one():
    with Interrupt() as asked:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert asked.requested


def test_a_stop_that_a_defect_asked_for_is_no_ctrl_c(monkeypatch):
    """The others are keeping their state: the user's first one must not cut that short."""
    monkeypatch.setattr(interrupt, "_SAME", -1.0)
    with Interrupt() as asked:
        asked.request()
        first_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has none")
def test_the_end_of_the_terminal_stops_after_the_step_but_not_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Interrupt() as asked:
            assert signal.getsignal(signal.SIGHUP) == asked._handle
            signal.raise_signal(signal.SIGHUP)
            assert asked.requested
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with Interrupt() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert not asked.requested
    finally:
        signal.signal(signal.SIGHUP, before)
