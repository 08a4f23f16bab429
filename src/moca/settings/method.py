"""Methods in short: a learner, or a learner and a perturbation joined by a plus, as in `er+wap:lambda=1.5`."""

from moca.errors import MocaError, nearest
from moca.parts import LEARNERS, PERTURBATIONS
from moca.settings.run import Run

METHODS = "methods"
"""The option of a comparison that gives learners and perturbations together."""


def method(text: str) -> dict[str, str]:
    """The run settings of a method, such as `er` or `er+wap:lambda=1.5`."""
    if not isinstance(text, str):
        raise MocaError(f"a method is text such as 'er+wap', not {text!r}; give objects as learner= and perturb=")
    learner, _, perturb = text.partition("+")
    name, moved = learner.partition(":")[0], perturb.partition(":")[0]
    learners, moves = LEARNERS.lines(), PERTURBATIONS.lines()
    if ("." not in name and name not in learners) or (perturb and "." not in moved and moved not in moves):
        known = [*learners, *(f"{one}+{way}" for one in learners for way in moves if way != "none")]
        raise MocaError(f"unknown method '{text}'; {nearest(name + (f'+{moved}' if perturb else ''), known)}")
    return {"learner": learner, "perturb": perturb or "none"}


def method_of(run: Run) -> str:
    """The inverse of `method`: learner and perturbation of a run, with the options they were given."""
    return run.learner.as_given() + f"+{run.perturb.as_given()}" * (run.perturb.name != "none")
