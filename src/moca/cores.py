"""The CPU cores that this process may use."""

import os
import sys


def cores() -> int:
    """How many cores this process may use; a scheduler or `taskset` may allow only some of the machine's."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
