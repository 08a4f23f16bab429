"""What `moca ls` lists: everything that can be chosen by name, and all about one of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moca.cli.options import written
from moca.data import catalogue
from moca.data.inventory import Listed, listing
from moca.data.store import Store
from moca.errors import MocaError, nearest
from moca.parts import KINDS, LEARNERS, PERTURBATIONS, Kind, by_path, kind_of, paper_in
from moca.settings import HEADS, OPTIMISERS, SCHEDULES, Run, Settings, by_name
from moca.settings.choice import options_of as settings_of

_TITLES = {"learner": "learners", "perturb": "perturbations", "model": "models", "track": "trackers"}
_CLOSED: dict[str, tuple[type[Settings], ...]] = {"head": HEADS, "optimiser": OPTIMISERS, "schedule": SCHEDULES}

CARDS = "docs/methods/NAME.md"
"""Where the page about a method is."""


@dataclass
class About:
    """All about one thing that can be chosen by name."""

    name: str
    kind: str
    line: str
    paper: str = ""
    card: str = ""
    options: list[tuple[str, str, str]] = field(default_factory=list)
    """As it is given, with its default; what is to be written; what it means."""
    recipes: dict[str, str] = field(default_factory=dict)
    """By protocol, or data set and protocol: the options that a run with it has there unless others are given."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """With a learner the perturbations that it does not take, with a perturbation such learners; and why."""
    use: str = ""
    """Of a data set: whether it is here, and what to do with it."""


def lines() -> dict[str, dict[str, tuple[str, str]]]:
    """By kind: each name with one line about it and its paper in short."""
    listed = {_TITLES[kind]: _with_papers(parts) for kind, parts in KINDS.items()}
    for kind, choices in _CLOSED.items():
        listed[f"{kind}s"] = {name: (_line(choice), "") for name, choice in by_name(choices).items()}
    return listed


def _with_papers(parts: Kind) -> dict[str, tuple[str, str]]:
    papers = parts.papers()
    return {name: (line, in_short(papers[name])) for name, line in parts.lines().items()}


def in_short(paper: str) -> str:
    """The first author and where and when it came out, of the first paper of a line `Authors, Venue Year, arXiv ...`;
    the line itself where it is written in another way."""
    found = re.match(r"(?P<first>[^,;]+)(?P<others>(?:, [^,;]+)*?), (?P<where>[^,;\d]+ \d{4})(?!\.?\d)", paper)
    if found is None:
        return paper
    more = " et al." if found["others"] and "et al." not in found["first"] else ""
    return f"{found['first']}{more}, {found['where']}"


def about(name: str) -> list[About]:
    """What has that name: mostly one thing, but for instance a head and a schedule are called cosine."""
    found = list(_found(name))
    if not found:
        known = {n for entries in lines().values() for n in entries} | {*catalogue.names(), *Store()}
        raise MocaError(f"nothing is called '{name}'; {nearest(name, known)}")
    return found


def _found(name: str) -> Iterator[About]:
    for parts in KINDS.values():
        if name in parts.lines():
            yield _part(name, parts, parts.find(name), parts.lines()[name], parts.papers()[name])
    if "." in name:
        part = by_path(name, "part")
        said = inspect.getdoc(part) or ""
        yield _part(name, kind_of(part), part, said.split("\n")[0], paper_in(said))
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
        use = f"Not stored; get it with: {one.state}"
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
    for option, declared in choice.model_fields.items():
        if option != choice.leading:
            default = "" if declared.default is None else f"={declared.default}"
            spelt = f"{name}:{declared.alias or option}{default}"
            listed.append((spelt, written(declared.annotation), declared.description or ""))
    return listed


def _spelt(name: str, recipe: dict[str, Any]) -> str:
    """A recipe as one would give it: settings of a run, and options of the part itself."""
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
