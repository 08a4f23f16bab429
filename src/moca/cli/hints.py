"""Error messages in the syntax of the command line: `out=` in Python is `--out` there."""

import re
import shlex
from ast import literal_eval
from collections.abc import Sequence
from pathlib import Path

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from moca.data.place import exists
from moca.errors import closest
from moca.settings import Bench, Run
from moca.settings.suggestions import meant

_OF_COMMANDS = "out jobs seeds methods track choose encoder keep"
_OF_DATA = "source size skip_bad test_share allow_differences workers per_class"
_OPTIONS = sorted({*Run.model_fields, *Bench.model_fields, *_OF_COMMANDS.split(), *_OF_DATA.split()}, key=len)[::-1]
_SPELLED = re.compile(rf"moca[\w.]+\([^()]*\)|(?<![\w.:,'\"/+-])({'|'.join(_OPTIONS)})=(True\b)?(?=([\w'\"./-])?)")
_CALL = re.compile(r"moca\.(data\.add|resume)(?:_comparison)?(\((?:(?:'[^']*'|\"[^\"]*\")(?:, )?)+\))")


def as_options(message: str) -> str:
    """The message as the command line says it: `lr=0.1` becomes `--lr 0.1`, `skip_bad=True` becomes `--skip-bad`,
    `moca.compare` becomes `moca compare`, and `moca.data.add('mine', 'pets')` `moca data add mine --from pets`. Calls
    that only Python can make, such as `moca.resume(folder, data=...)`, stay."""
    return _SPELLED.sub(_option, _CALL.sub(_command, message.replace("moca.compare", "moca compare")))


def _option(found: re.Match[str]) -> str:
    if found[1] is None:  # a call
        return found[0]
    name = "from" if found[1] == "source" else found[1].replace("_", "-")
    return f"--{name}{' ' if found[3] and not found[2] else ''}"


def _command(found: re.Match[str]) -> str:
    first, *source = literal_eval(f"[{found[2][1:-1]}]")
    return shlex.join(["moca", *found[1].split("."), first, *(word for place in source for word in ("--from", place))])


def folders_first(folder: str, option: str, command: str = "runs") -> str:
    """What to say of a folder that was given after an option that takes several values."""
    first = f"moca {command} {shlex.quote(folder)} {option} ..."
    return f"folders come first, since {option} takes all that follows it: {first}"


def hinted(error: CycloptsError) -> str:
    """The parser's error message, improved where we know what the user should give or where to look."""
    message, command = str(error), error.command_chain
    if isinstance(error, MissingArgumentError) and error.argument:
        options = [token.partition("=")[0] for token in error.unused_tokens or () if token.startswith("-")]
        if not error.keyword and (misspelt := closest(error.argument.name, options)):
            return f"there is no option {misspelt}; did you mean {error.argument.name}?"
        called = f"moca {' '.join(command or ())}"
        hint = error.argument.parameter.help or f"see {called} --help"
        return (
            f"{error.keyword} needs a value: {hint}"
            if error.keyword
            else f"{' '.join(command or ())} needs {error.argument.name}: {hint}"
        )
    if isinstance(error, CoercionError) and command == ("compare",) and error.token and "," in error.token.value:
        option, given = error.token.keyword, error.token.value
        if option in ("--seeds", "--seed"):
            separate = " ".join(given.replace(",", " ").split())
            return f"{option} {given} is not a whole number; for these seeds use --seed {separate}."
    if isinstance(error, CoercionError) and command == ("runs",) and error.token and exists(Path(error.token.value)):
        return folders_first(error.token.value, str(error.token.keyword))
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return _unexpected(error.unused_tokens, command)
    if isinstance(error, UnknownOptionError) and command in (("run",), ("compare",)):
        given = (error.token.keyword or error.token.value).partition("=")[0]
        suggestion = meant(given.strip("-").replace("-", "_"))
        return f"{given} {as_options(suggestion)}." if suggestion else message
    return message


def _unexpected(words: Sequence[str], command: Sequence[str] | None) -> str:
    """What to say of words that belong to no option."""
    unexpected = f"unexpected argument{'s' * (len(words) > 1)} {', '.join(map(repr, words))}"
    if command == ("model", "forget"):
        return f"{unexpected}: one class is forgotten at a time."
    if command in (("run",), ("compare",)) and len(words) == 1 and exists(Path(words[0])):
        return f"{unexpected}; to train on it, use --data {shlex.quote(words[0])}"
    message = f"{unexpected}; --help shows what can be given."
    if command == ("compare",) and all(word.isdigit() for word in words):
        return f"{message} --seeds sets how many seeds, --seed which ones."
    return f"{message} For several values of an option use moca compare." if command == ("run",) else message
