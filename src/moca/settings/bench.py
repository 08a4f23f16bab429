"""Settings of a benchmark."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from moca.errors import MocaError
from moca.settings.base import Settings, several, validate
from moca.settings.method import method
from moca.settings.run import AtLeastOne, Precision, Run


def _or_none(value: Any) -> Any:
    """Several values; the word none stands for no value."""
    values = several(value)
    return () if values in (("none",), ["none"]) else values


def _methods(value: Any) -> Any:
    value = _or_none([value] if isinstance(value, str) else value)  # a comma may be part of a method
    for text in value:
        run = validate(Run, method(text))
        if not run.learner.make().has_memory:
            raise MocaError(f"'{run.learner.name}' keeps no samples; only methods with a memory can be benchmarked")
    return value


Way = Literal["eager", "compiled", "captured"]


class Bench(Settings):
    """What is timed: which methods, in which execution modes, on which device."""

    methods: Annotated[tuple[str, ...], BeforeValidator(_methods)] = Field(
        ("er", "er+gaussian", "er+wap", "derpp", "er_ace"),
        description="learner, or learner+perturbation [default: er er+gaussian er+wap derpp er_ace]",
        min_length=1,
    )
    ways: Annotated[tuple[Way, ...], Field(min_length=1), BeforeValidator(_or_none)] | None = Field(
        None, description="how a step runs: eager, compiled, captured [default: all on a GPU, eager on a CPU]"
    )
    packed: Annotated[tuple[AtLeastOne, ...], BeforeValidator(_or_none)] | None = Field(
        None, description="runs at once on one GPU; none skips [default: 1 2 4 8 on a GPU]"
    )
    device: str = Field("auto", description="cpu, cuda, or auto")
    width: int = Field(64, ge=1, description="channels of ResNet-18's first stage; 64 offline, 20 online")
    batch: int = Field(32, ge=1, description="new samples per step, and replayed ones per draw")
    precision: Precision = Field("auto", description="of the encoder, as in moca run")
    threads: int | None = Field(None, ge=1, le=1024, description="CPU threads [default: torch's]")
    steps: int | None = Field(None, ge=1, description="steps per block [default: 50 on a GPU, 2 on the CPU]")
    blocks: int | None = Field(
        None, ge=1, description="number of blocks; one time is measured per block [default: 5 on a GPU, 3 on the CPU]"
    )
    twin: bool = Field(True, description="also time a re-implementation of the official code")
