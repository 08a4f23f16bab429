"""A run without anything around it."""

from moca import Result
from moca.engine.interrupt import Interrupt
from moca.engine.run import Running


def finish(run: Running) -> Result:
    """To its end, in this process."""
    with Interrupt() as interrupt:
        for _ in run.steps(interrupt):
            pass
    return run.result
