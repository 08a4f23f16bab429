"""Any valid settings, drawn from the options' types and bounds, so that a new part or option is covered by itself."""

from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from moca.parts import ENCODERS, LEARNERS, PERTURBATIONS, Kind
from moca.settings import HEADS, OPTIMISERS, SCHEDULES, Choice, Run, Seeds, Settings
from moca.settings.arrival import Arrival
from moca.settings.choice import options_of
from moca.settings.memory import Memory
from moca.settings.run import RECORDINGS


def classes_of(kind: Kind) -> tuple[type[Choice], ...]:
    """The settings of every part of a kind that comes with moca."""
    return tuple(options_of(kind.find(name), name) for name in kind.built_in)


CHOICES: dict[str, tuple[type[Settings], ...]] = {
    "learner": classes_of(LEARNERS),
    "perturb": classes_of(PERTURBATIONS),
    "model": classes_of(ENCODERS),
    "head": HEADS,
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
}
WITHOUT_MEMORY = ("ewc", "finetune", "joint", "lwf", "pass", "proxy", "teacher")
"""And what is around any learner, which may be one of these."""


def bounds(field: Any) -> dict[str, Any]:
    """The limits of a number, as hypothesis's names."""
    limits: dict[str, Any] = {}
    for limit in field.metadata:
        for name, side in (("ge", "min"), ("gt", "min"), ("le", "max"), ("lt", "max")):
            if getattr(limit, name, None) is not None:
                limits[f"{side}_value"] = getattr(limit, name)
                limits[f"exclude_{side}"] = name in ("gt", "lt")
    return limits


def values(field: Any) -> st.SearchStrategy[Any]:
    """Any valid value of a field."""
    kind = field.annotation
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return st.one_of([_values(kind, field) for kind in kinds])


def _values(kind: Any, field: Any) -> st.SearchStrategy[Any]:
    """Any valid value of a kind that a field may have."""
    if kind is type(None):
        return st.none()
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind is bool:
        return st.booleans()
    if kind is int:
        limits = bounds(field)
        return st.integers(limits.get("min_value", -1000), min(10**6, limits.get("max_value", 10**6)))
    if kind is float:
        return st.floats(**({"max_value": 1e6} | bounds(field)), allow_nan=False, allow_infinity=False)
    if kind is str:  # the learner that another one is around
        return st.sampled_from(["er", "derpp:alpha=0.2/beta=0.6", "icarl", "finetune"])
    if get_origin(kind) is tuple:
        return st.lists(st.integers(0, 100), min_size=1, max_size=4).map(tuple)
    raise NotImplementedError(f"{kind}")


@cache
def fields_of(cls: type[Settings]) -> dict[str, st.SearchStrategy[Any]]:
    """Any valid value of each field of a class; made once, as hypothesis looks at each new strategy from all sides."""
    return {name: values(field) for name, field in cls.model_fields.items() if name != "name"}


@st.composite
def settings_of(draw: Any, cls: type[Settings]) -> Settings:
    """Any valid settings of a class."""
    given = {name: draw(any_value) for name, any_value in fields_of(cls).items() if draw(st.booleans())}
    if given.get("fixed_angle") is not None:
        given.pop("angle_cap", None)
    named = {"name": cls.model_fields["name"].default} if "name" in cls.model_fields else {}
    if named == {"name": "icarl"}:  # which has no logits
        given.pop("adjust", None)
    if given.get("adjust") == "auto" and named["name"] in WITHOUT_MEMORY:
        given.pop("adjust")
    return cls(**named, **given)


@cache
def choice_of(kind: str) -> st.SearchStrategy[Settings]:
    """Any valid settings of any class of a kind."""
    return st.one_of([settings_of(cls) for cls in CHOICES[kind]])


@cache
def fields_of_runs() -> dict[str, st.SearchStrategy[Any]]:
    """Any valid value of each setting of a run."""
    special = {kind: choice_of(kind) for kind in CHOICES} | {
        "frozen": choice_of("model"),
        "data": st.sampled_from(["digits", "seq-cifar10"]),
        "memory": settings_of(Memory),
        "seed": settings_of(Seeds),
        "arrival": settings_of(Arrival),
        "data_dir": st.just("store"),
        "protocol": st.sampled_from(["offline", "online"]),
        "tasks": st.integers(1, 9) | st.lists(st.integers(1, 9), min_size=2).map(tuple),
        "class_order": st.sampled_from(["natural", "random"]) | st.permutations(range(5)).map(tuple),
        "bn_passes": st.sampled_from(["replay", "clean", "official"]) | st.text("nb", min_size=1, max_size=5),
        "device": st.sampled_from(["auto", "cpu"]),
        "record": st.sets(st.sampled_from(RECORDINGS)).map(sorted).map(tuple),
    }
    return {name: special[name] if name in special else values(field) for name, field in Run.model_fields.items()}


@st.composite
def runs(draw: Any) -> Run:
    """Any valid run."""
    given = {name: draw(any_value) for name, any_value in fields_of_runs().items() if draw(st.booleans())}
    if given.get("short_batch") == "skip":
        given.pop("replay_batch", None)
    default = Run()
    learner, perturb = given.get("learner", default.learner), given.get("perturb", default.perturb)
    made = learner.make()
    if made.why_not(perturb.make()):
        given.pop("perturb", None)
        perturb = default.perturb
    unknown = given.get("bn_passes") == "official" and made.official_passes(perturb.make()) is None
    if unknown or not made.draws or made.together:
        given.pop("bn_passes", None)
    if given.get("head", default.head).name == "simplex":
        given.pop("classes", None)
    memory, unknown = given.get("memory", Memory()), given.get("classes") == "unknown"
    if made.has_memory and (memory.size == 0 or (unknown and memory.per == "class")):
        given.pop("memory")
    if not made.tests_model:  # statistics of the network that learns say nothing about the one that is tested
        given["record"] = tuple(kind for kind in given.get("record", ()) if kind != "rules")
    return Run(**given)
