"""A run without anything around it."""

from moca import Result
from moca.engine.interrupt import Interrupt
from moca.engine.material import Material
from moca.engine.run import Running
from moca.settings import Run, validate


def begin(settings: dict, out, advance=None, **options) -> Running:
    """A new run, ready to be finished."""
    return Running(*Material()(validate(Run, settings)), advance, **options).start(out)


def finish(run: Running) -> Result:
    """To its end, in this process."""
    with Interrupt() as interrupt:
        for _ in run.steps(interrupt):
            pass
    return run.result


def complete(settings: dict) -> Run:
    """The settings with nothing left open."""
    return Material()(validate(Run, settings))[0]
