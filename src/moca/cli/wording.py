"""Messages in the words of the command line: what Python calls `out=` is `--out` there."""

import re

from moca.settings import Bench, Run

_OPTIONS = sorted(
    {*Run.model_fields, *Bench.model_fields, "out", "jobs", "seeds", "track", "choose"}, key=len, reverse=True
)
_SPELLED = re.compile(rf"(?<![\w.:,'\"/+-])({'|'.join(_OPTIONS)})=(?=([\w'\"./-])?)")


def as_options(message: str) -> str:
    """The message with settings spelled as options."""
    return _SPELLED.sub(lambda found: f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}", message)


def hinted(message: str) -> str:
    """What the parser says, and where to look where that can be told."""
    if "Unknown option: --seeds" in message or "Unknown option: --jobs" in message or "Unused Tokens" in message:
        return f"{message} To run several seeds, or several values of an option, use moca compare."
    return message
