"""Messages in the words of the command line: what Python calls `out=` is `--out` there."""

import re
from collections.abc import Iterable

from cyclopts import CycloptsError, MissingArgumentError, UnknownOptionError

from moca.parts import ENCODERS, LEARNERS, PERTURBATIONS
from moca.settings import HEADS, OPTIMISERS, SCHEDULES, Bench, Run, Settings
from moca.settings.choice import options_of

_OPTIONS = sorted(
    {*Run.model_fields, *Bench.model_fields, "out", "jobs", "seeds", "track", "choose"}, key=len, reverse=True
)
_SPELLED = re.compile(rf"(?<![\w.:,'\"/+-])({'|'.join(_OPTIONS)})=(?=([\w'\"./-])?)")


def as_options(message: str) -> str:
    """The message with settings spelled as options."""
    return _SPELLED.sub(lambda found: f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}", message)


def hinted(error: CycloptsError) -> str:
    """What the parser says of a command, and what to give, or where to look, where that can be told."""
    message, command = str(error), error.command_chain
    if isinstance(error, MissingArgumentError) and error.argument:
        called = f"moca {' '.join(command or ())}"
        told = error.argument.parameter.help or f"see {called} --help"
        return (
            f"{error.keyword} needs a value: {told}"
            if error.keyword
            else f"{called} needs {error.argument.name}: {told}"
        )
    if "Unused Tokens: [" in message:
        extra = message.partition("[")[2].partition("]")[0]
        if command == ("model", "forget"):
            return f"there is no place for {extra} here: one class is forgotten at a time."
        message = f"there is no place for {extra} here; --help shows what can be given."
        if command == ("compare",) and extra.replace("'", "").replace(", ", "").isdigit():
            return f"{message} --seeds says how many there are, --seed which ones."
        return f"{message} For several values of an option use moca compare." if command == ("run",) else message
    if "Unknown option: --seeds" in message or "Unknown option: --jobs" in message:
        return f"{message} To run several seeds, or several values of an option, use moca compare."
    if isinstance(error, UnknownOptionError) and command in (("run",), ("compare",)):
        given = (error.token.keyword or error.token.value).partition("=")[0]
        return _meant(given.strip("-").replace("-", "_"), given) or message
    return message


_ELSEWHERE = {
    "buffer_size": "memory", "mem_size": "memory", "minibatch_size": "replay_batch", "batch_size_mem": "replay_batch",
    "batch_size": "batch", "n_epochs": "epochs", "n_tasks": "tasks", "n_experiences": "tasks", "dataset": "data",
    "method": "learner", "strategy": "learner", "backbone": "model", "optimizer": "optimiser", "scenario": "arrival",
}  # fmt: skip
"""What other libraries of the field call them."""


def _meant(name: str, given: str) -> str:
    """What an option that there is not stands for: one that is called otherwise here, or an option of a choice."""
    if name in _ELSEWHERE:
        return f"{given} is called --{_ELSEWHERE[name].replace('_', '-')} here."
    for setting, choices in _choices().items():
        if name in {field.alias or option for choice in choices for option, field in choice.model_fields.items()}:
            return f"{given} is an option of what --{setting} names: --{setting} NAME:{name}=... (moca ls NAME)."
    return ""


def _choices() -> dict[str, Iterable[type[Settings]]]:
    """What each setting may name, by their options."""
    kinds = PERTURBATIONS, LEARNERS, ENCODERS
    found = {kind.setting: tuple(options_of(kind.find(name), name) for name in kind.built_in) for kind in kinds}
    return {**found, "optimiser": OPTIMISERS, "schedule": SCHEDULES, "head": HEADS}
