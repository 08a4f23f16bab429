"""Ctrl-C before anything has begun."""

import signal
import subprocess
import sys

import pytest

from moca.importing import loading


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_while_modules_are_loaded_ends_at_once_in_one_line():
    program = """
import os, signal
from moca.importing import loading
with loading():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        print("somebody swallowed it")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "moca: stopped\n")


def test_afterwards_ctrl_c_is_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    with loading():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
