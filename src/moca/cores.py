"""The cores of the machine, as far as they are ours."""

import os
import sys


def cores() -> int:
    """How many this process may use: a scheduler, or `taskset`, may have given it a few of many."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
