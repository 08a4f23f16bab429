"""Methods in short: a learner, or a learner and a perturbation joined by a plus, as in `er+wap:lambda=1.5`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from moca.errors import MocaError
from moca.parts import LEARNERS, PERTURBATIONS, Kind
from moca.settings.base import Named
from moca.settings.run import Run

METHODS = "methods"
"""The option of a comparison that gives learners and perturbations together."""
NONE = Named("none")
"""A learner or perturbation that is not there, or not named."""


@dataclass(frozen=True)
class Label:
    """What a method is called: its learner and perturbation, and those of its settings that tell it from others."""

    learner: Named
    perturb: Named = NONE
    others: tuple[str, ...] = ()
    """Other settings, such as `lr=0.1`."""

    def __str__(self) -> str:
        """As moca writes it: `er_ace+gaussian:lambda=0.5 lr=0.1`."""
        method = f"{self.learner}" * (self.learner != NONE) + f"+{self.perturb}" * (self.perturb != NONE)
        return " ".join(filter(None, [method, *self.others]))

    @property
    def in_print(self) -> str:
        """As papers write it: ER-ACE + Gaussian (λ=0.5, lr=0.1); without perturbation, if it has neither."""
        kinds = ((LEARNERS, self.learner), (PERTURBATIONS, self.perturb))
        titles = [_title(kind, part.name) for kind, part in kinds if part != NONE]
        if not all(titles):
            return str(self)
        options = ", ".join([*self.learner.options, *self.perturb.options, *self.others])
        in_brackets = f" ({options})".replace("lambda=", "\N{GREEK SMALL LETTER LAMDA}=") * bool(options)
        return (" + ".join(titles) or "without perturbation") + in_brackets

    def also(self, other: str) -> Label:
        """The label with another setting."""
        return replace(self, others=(*self.others, other))

    def without(self, other: str) -> Label:
        """The label without one of the other settings."""
        return replace(self, others=tuple(one for one in self.others if one != other))


def _title(kind: Kind, name: str) -> str:
    """What a part is called in its paper, as its docstring begins, a user's class without its module; empty for a name
    that is no part's."""
    if name in kind.built_in:
        return kind.lines()[name].partition(":")[0]
    return name.rpartition(".")[2] if kind.knows(name) or "." in name else ""


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
