"""What `moca ls` shows: everything that can be chosen by name, and the details of one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moca.cli.hints import as_options
from moca.cli.options import written
from moca.data import catalogue
from moca.data.inventory import Listed, listing
from moca.data.store import Store
from moca.elsewhere import data_meant, learner_meant
from moca.errors import MocaError, closest
from moca.parts import KINDS, LEARNERS, PERTURBATIONS, Kind, by_path, kind_of, paper_in
from moca.settings import HEADS, OPTIMISERS, SCHEDULES, Run, Settings, by_name
from moca.settings.choice import options_of as settings_of

_TITLES = {"learner": "learners", "perturb": "perturbations", "model": "models", "track": "trackers"}
_CLOSED: dict[str, tuple[type[Settings], ...]] = {"head": HEADS, "optimiser": OPTIMISERS, "schedule": SCHEDULES}

CARDS = "docs/methods/NAME.md"
"""Path of a method's documentation page."""


@dataclass
class About:
    """Details of one thing that can be chosen by name: a learner, a perturbation, a data set, ..."""

    name: str
    kind: str
    line: str
    paper: str = ""
    card: str = ""
    options: list[tuple[str, str, str]] = field(default_factory=list)
    """For each option: as it is written, with its default; the kind of value; the description."""
    recipes: dict[str, str] = field(default_factory=dict)
    """By protocol, or data set and protocol: the options that a run uses there unless the user gives others."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Incompatible perturbations of a learner, or learners of a perturbation, each with the reason."""
    use: str = ""
    """For a data set: whether it is stored, and which commands use or get it."""


def lines() -> dict[str, dict[str, tuple[str, str]]]:
    """By kind: each name with a one-line description and its paper in short."""
    listed = {_TITLES[kind]: _with_papers(parts) for kind, parts in KINDS.items()}
    for kind, choices in _CLOSED.items():
        listed[f"{kind}s"] = {name: (_line(choice), "") for name, choice in by_name(choices).items()}
    return listed


def _with_papers(parts: Kind) -> dict[str, tuple[str, str]]:
    papers = parts.papers()
    return {name: (line, in_short(papers[name])) for name, line in parts.lines().items()}


def in_short(paper: str) -> str:
    """Shorten `Authors, Venue Year, arXiv ...` to the first author, venue and year of the first paper.

    A line in any other form is returned unchanged.
    """
    found = re.match(r"(?P<first>[^,;]+)(?P<others>(?:, [^,;]+)*?), (?P<where>[^,;\d]+ \d{4})(?!\.?\d)", paper)
    if found is None:
        return paper
    more = " et al." if found["others"] and "et al." not in found["first"] else ""
    return f"{found['first']}{more}, {found['where']}"


def about(name: str) -> list[About]:
    """Everything of that name, with or without options: usually one thing, but `cosine` for example is both a head and
    a schedule."""
    name = name.partition(":")[0]
    if found := list(_found(name)):
        return found
    sets, kinds = {*catalogue.names(), *Store()}, lines()
    meant = learner_meant(name) or data_meant(name, sets)
    close = closest(name, {n for entries in kinds.values() for n in entries} | sets | kinds.keys(), cutoff=0.75)
    hint = meant or (f"did you mean '{close}'?" if close else "moca ls, without a name, lists what there is")
    raise MocaError(f"nothing is called '{name}'; {hint}")


def _found(name: str) -> Iterator[About]:
    for parts in KINDS.values():
        if name in parts.lines():
            yield _part(name, parts, parts.find(name), parts.lines()[name], parts.papers()[name])
    if "." in name:
        part = by_path(name, "part")
        doc = inspect.getdoc(part) or ""
        yield _part(name, kind_of(part), part, doc.split("\n")[0], paper_in(doc))
    for kind, choices in _CLOSED.items():
        if choice := by_name(choices).get(name):
            yield About(name, kind, _line(choice), options=_options(name, choice))
    if name in catalogue.names() or name in Store():
        yield from (_data_set(one) for one in listing() if one.name == name)


def _line(choice: type[Settings]) -> str:
    return (choice.__doc__ or "").split("\n")[0]


def _data_set(one: Listed) -> About:
    name, line, recipes = one.name, one.title, {}
    if name in catalogue.names():
        line = catalogue.descriptions()[name]
        from moca.data.loading import load

        known = catalogue.known(name)
        for protocol in known.protocols.values() or [load(name).protocol]:
            tasks = protocol.tasks_for(len(known.classes))
            count = tasks if isinstance(tasks, int) else len(tasks)
            recipes[protocol.name] = f"{count} tasks {_spelt(name, dict(protocol.recipe))}"
    if one.state == "damaged":
        use = f"Damaged; remove it with: moca data rm {name}"
    elif one.state in ("stored", "embedded"):
        use = f"Learn it: moca run --data {name}. See it: moca data show {name}"
    else:
        use = f"Not stored; get it with: {as_options(one.state)}"
    return About(name, "data set", line, recipes=recipes, use=use)


def _part(name: str, parts: Kind, part: Any, line: str, paper: str) -> About:
    return About(
        name,
        parts.name,
        line,
        paper,
        CARDS.replace("NAME", name) if parts.has_card(name) else "",
        _options(name, settings_of(part, name)),
        {place: _spelt(name, recipe) for place, recipe in getattr(part, "recipes", {}).items()},
        _refused(parts, part),
    )


def _options(name: str, choice: type[Settings]) -> list[tuple[str, str, str]]:
    listed = []
    prefix = "" if "." in name else f"{name}:"  # a dotted path would leave no room for them
    for option, declared in choice.model_fields.items():
        if option != choice.leading:
            default = "" if declared.default is None else f"={declared.default}"
            spelt = f"{prefix}{declared.alias or option}{default}"
            listed.append((spelt, written(declared.annotation), declared.description or ""))
    return listed


def _spelt(name: str, recipe: dict[str, Any]) -> str:
    """A recipe as command-line options: settings of a run, and options of the part itself."""
    settings = [f"--{key.replace('_', '-')} {value}" for key, value in recipe.items() if key in Run.model_fields]
    own = [f"{key}={value}" for key, value in recipe.items() if key not in Run.model_fields]
    return " ".join([*settings, *([f"{name}:{','.join(own)}"] if own else [])])


def _refused(parts: Kind, part: Any) -> list[tuple[str, str]]:
    if parts is LEARNERS:
        learner, others = part(), {name: PERTURBATIONS.find(name)() for name in PERTURBATIONS.lines()}
        reasons = {name: learner.why_not(other) for name, other in others.items() if other.moves}
    elif parts is PERTURBATIONS:
        perturbation = part()
        reasons = {name: LEARNERS.find(name)().why_not(perturbation) for name in LEARNERS.lines()}
    else:
        return []
    together: dict[str, list[str]] = {}
    for name, why in reasons.items():
        together.setdefault(why, []).append(name)
    every = "every perturbation" if parts is LEARNERS else "every learner"
    return [(", ".join(who) if len(who) < len(reasons) else every, why) for why, who in together.items() if why]
