"""Methods in short: a learner, or a learner and a perturbation joined by a plus, as in `er+wap:lambda=1.5`."""

import re

from moca.errors import MocaError
from moca.parts import LEARNERS, PERTURBATIONS
from moca.settings.run import Run

METHODS = "methods"
"""The option of a comparison that gives learners and perturbations together."""


def method(text: str) -> dict[str, str]:
    """The run settings of a method, such as `er` or `er+wap:lambda=1.5`. Unknown names are left to the settings."""
    if not isinstance(text, str):
        raise MocaError(f"a method is text such as 'er+wap' (this is {text!r})")
    learner, plus, perturb = text.replace("++", "pp").partition("+")
    if not learner or (plus and not perturb):
        raise MocaError(f"'{text}' is not a method; give a learner, or a learner and a perturbation: er, er+wap")
    name = learner.partition(":")[0]
    if name in PERTURBATIONS.built_in and name not in LEARNERS.built_in:
        raise MocaError(f"'{text}' is a perturbation; give a learner with it: er+{text}")
    if re.search(r"\+[A-Za-z]", perturb):
        raise MocaError(f"'{text}' is not a method: a learner takes one perturbation, as in er+wap")
    return {"learner": learner, "perturb": perturb or "none"}


def method_of(run: Run) -> str:
    """The inverse of `method`: learner and perturbation of a run, with the options they were given."""
    return run.learner.as_given() + f"+{run.perturb.as_given()}" * (run.perturb.name != "none")
