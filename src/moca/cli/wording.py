"""Messages in the words of the command line: what Python calls `out=` is `--out` there."""

import re

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnknownOptionError

from moca.settings import Bench, Run
from moca.settings.suggestions import meant

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
    if isinstance(error, CoercionError) and command == ("compare",) and error.token and "," in error.token.value:
        option, given = error.token.keyword, error.token.value
        if option in ("--seeds", "--seed"):
            apart = " ".join(given.replace(",", " ").split())
            return f"{option} {given} is no whole number; these seeds are --seed {apart}."
    if "Unused Tokens: [" in message:
        extra = message.partition("[")[2].partition("]")[0]
        if command == ("model", "forget"):
            return f"there is no place for {extra} here: one class is forgotten at a time."
        message = f"there is no place for {extra} here; --help shows what can be given."
        if command == ("compare",) and extra.replace("'", "").replace(", ", "").isdigit():
            return f"{message} --seeds says how many there are, --seed which ones."
        return f"{message} For several values of an option use moca compare." if command == ("run",) else message
    if isinstance(error, UnknownOptionError) and command in (("run",), ("compare",)):
        given = (error.token.keyword or error.token.value).partition("=")[0]
        told = meant(given.strip("-").replace("-", "_"))
        return f"{given} {as_options(told)}." if told else message
    return message
