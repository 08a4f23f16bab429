"""Any valid settings, drawn from the fields' own types and bounds, so that a new option is covered by itself."""

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from moca.settings import HEADS, LEARNERS, MODELS, PERTURBATIONS, Run, Seeds, Settings
from moca.settings.memory import Memory
from moca.settings.run import OFFICIAL_PASSES

CHOICES = {"learner": LEARNERS, "perturb": PERTURBATIONS, "model": MODELS, "head": HEADS}


def bounds(field: Any) -> dict[str, Any]:
    """The limits of a number, as hypothesis's names."""
    limits: dict[str, Any] = {}
    for limit in field.metadata:
        for name, side in (("ge", "min"), ("gt", "min"), ("le", "max"), ("lt", "max")):
            if hasattr(limit, name):
                limits[f"{side}_value"] = getattr(limit, name)
                limits[f"exclude_{side}"] = name in ("gt", "lt")
    return limits


def values(field: Any) -> st.SearchStrategy[Any]:
    """Any valid value of a field."""
    kind, optional = field.annotation, False
    if get_origin(kind) in (Union, UnionType):
        optional = True
        (kind,) = (a for a in get_args(kind) if a is not type(None))
    if get_origin(kind) is Literal:
        strategy: st.SearchStrategy[Any] = st.sampled_from(get_args(kind))
    elif kind is bool:
        strategy = st.booleans()
    elif kind is int:
        limits = bounds(field)
        strategy = st.integers(limits.get("min_value", -1000), min(10**6, limits.get("max_value", 10**6)))
    elif kind is float:
        strategy = st.floats(**({"max_value": 1e6} | bounds(field)), allow_nan=False, allow_infinity=False)
    else:
        raise NotImplementedError(f"{kind}")
    return st.none() | strategy if optional else strategy


@st.composite
def settings_of(draw: Any, cls: type[Settings]) -> Settings:
    """Any valid settings of a class."""
    given = {name: draw(values(field)) for name, field in cls.model_fields.items() if draw(st.booleans())}
    if given.get("fixed_angle") is not None:
        given.pop("angle_cap", None)
    return cls(**given)


def choice_of(kind: str) -> st.SearchStrategy[Settings]:
    """Any valid settings of any class of a kind."""
    return st.one_of([settings_of(cls) for cls in CHOICES[kind]])


@st.composite
def runs(draw: Any) -> Run:
    """Any valid run."""
    special = {kind: choice_of(kind) for kind in CHOICES} | {
        "data": st.sampled_from(["digits", "seq-cifar10"]),
        "memory": settings_of(Memory),
        "seed": settings_of(Seeds),
        "data_dir": st.just("store"),
        "protocol": st.sampled_from(["offline", "online"]),
        "tasks": st.integers(1, 9) | st.lists(st.integers(1, 9), min_size=2).map(tuple),
        "class_order": st.sampled_from(["natural", "random"]) | st.permutations(range(5)).map(tuple),
        "lr_milestones": st.lists(st.integers(0, 100), max_size=4).map(tuple),
        "lr_factor": st.floats(0, 1e6, exclude_min=True),
        "bn_passes": st.sampled_from(["clean", "official"]) | st.text("nb", min_size=1, max_size=5),
        "device": st.sampled_from(["auto", "cpu"]),
    }
    given = {
        name: draw(special[name] if name in special else values(field))
        for name, field in Run.model_fields.items()
        if draw(st.booleans())
    }
    replays = given.get("learner", LEARNERS[2]()).name not in ("finetune", "joint")
    if not replays:
        given.pop("perturb", None)
    method = (given.get("learner", LEARNERS[2]()).name, given.get("perturb", PERTURBATIONS[0]()).name)
    unknown = given.get("bn_passes") == "official" and method not in OFFICIAL_PASSES
    if unknown or not replays or given.get("passes") == "concatenated":
        given.pop("bn_passes", None)
    if method[0] in ("derpp", "er_ace"):
        given.pop("passes", None)
    if replays and given.get("memory", Memory()).size == 0:
        given.pop("memory")
    return Run(**given)
