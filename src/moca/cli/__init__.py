"""The command line: parse, call, print."""

import errno
import io
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from cyclopts import App, CycloptsError, Group, Parameter, Token, convert

from moca import __version__
from moca.cli.analyse import analyse
from moca.cli.bench import command as bench
from moca.cli.config import with_config
from moca.cli.data import app as data_app
from moca.cli.hints import as_options, hinted
from moca.cli.model import app as model_app
from moca.cli.model import learn, predict
from moca.cli.options import FILES, given, with_run_options
from moca.cli.paper import app as paper_app
from moca.cli.report import report
from moca.cli.runs import runs
from moca.cli.serve import serve
from moca.cli.show import aside, complain, say, show_about, show_comparison, show_intent, show_lines, show_result
from moca.errors import Interrupted, MocaError, MocaWarning
from moca.importing import loading
from moca.paths import from_here
from moca.user_tracebacks import from_theirs_on, noted


def _exactly(kind: Any, tokens: Sequence[Token]) -> Any:
    """Convert what was given to an option, as cyclopts does, which alone would round 2.5 seeds to 2."""
    if int in (kind, *get_args(kind)):
        for token in tokens:
            if "." in token.value:
                raise MocaError(f"{token.keyword} {token.value} is not a whole number")
    return convert(kind, tokens)


app = App(
    name="moca",
    version=__version__,
    help="Continual learning by modeling intra-class variation: any replay learner with any MOCA perturbation.\n\n"
    "To start: moca run trains on the bundled digits in seconds, moca run --data path/to/folder on your images, one "
    "subfolder per class.",
    suppress_keyboard_interrupt=False,  # `main` handles it
    default_parameter=Parameter(converter=_exactly),
)

_CHOICES = "A part's own options follow its name: --perturb wap:lambda=1.5,steps=2. To list them: moca ls wap"
_METHODS = "learners with or without a perturbation: er er+wap derpp; instead of all of --learner with all of --perturb"
_JOBS = "runs at a time: processes on a CPU (default 1), packed on a GPU (default 8)"
_CHOOSE = (
    "share of the training images to hold out, such as 0.1: choose the best combination for each learner with each "
    "perturbation on them, with separate seeds (0.1:seeds=2: two seeds), then evaluate it on the test images"
)
Out = Annotated[
    str | None,
    Parameter(help="folder to write to [default: a new one under runs]", show_default=False, group=FILES),
]
Config = Annotated[
    Path | None,
    Parameter(
        help="TOML, YAML or JSON file with any of these options; the command line takes precedence",
        show_default=False,
        group=FILES,
    ),
]
Track = Annotated[
    list[str] | None,
    Parameter(
        help="also log to a tracker: tensorboard, mlflow:uri=http://..., wandb:mode=offline, ... (moca ls); nothing "
        "is sent anywhere unless you ask for it",
        consume_multiple=1,
        negative=(),
        group=FILES,
    ),
]
SaveConfig = Annotated[
    Path | None, Parameter(help="write the options to a config file first", show_default=False, group=FILES)
]


def run(
    *, out: Out = None, track: Track = None, config: Config = None, save_config: SaveConfig = None, **options: Any
) -> int:
    """Train one learner with one perturbation on one stream of tasks.

    Settings that you leave out come from the data set's recipe; the run prints them in one line.
    """
    with with_config({**given(options), "out": out, "track": track}, config, save_config) as settings:
        with loading():
            from moca import api

        return _show_run(api.run(progress=True, say=aside, **settings))


def resume(
    folder: Path,
    /,
    *,
    jobs: Annotated[int | None, Parameter(help=f"for a comparison: {_JOBS}", show_default=False)] = None,
    progress: Literal["bar", "lines"] = "bar",
    keep_model: bool = True,
    track: Track = None,
) -> int:
    """Resume an interrupted run or comparison exactly where it stopped, with the trackers it had.

    Parameters
    ----------
    folder
        Folder of a run or of a comparison.
    progress
        For a run: a progress bar, or for programs lines on stdout: steps done, a tab, where the run is.
    keep_model
        For a run: write the final weights.
    """
    from moca.engine.request import ASKED

    is_comparison = (folder / ASKED).is_file()
    if progress == "lines" and not is_comparison:
        from moca.cli.lines import as_lines

        return as_lines(folder, keep_model, track)
    with loading():
        from moca import api

    if is_comparison:
        return _show_and_report(api.resume_comparison(folder, jobs=jobs, progress=True, track=track, say=aside))
    return _show_run(api.resume(folder, progress=True, keep_model=keep_model, track=track))


def compare(
    *,
    seeds: Annotated[
        int | None, Parameter(help="number of seeds, counting from 0 [default: 3]", show_default=False)
    ] = None,
    seed: Annotated[
        list[int] | None, Parameter(help="exactly these seeds instead", consume_multiple=1, negative=())
    ] = None,
    methods: Annotated[
        list[str] | None, Parameter(help=_METHODS, show_default=False, consume_multiple=1, negative=())
    ] = None,
    jobs: Annotated[int | None, Parameter(help=_JOBS, show_default=False)] = None,
    out: Out = None,
    track: Track = None,
    choose: Annotated[str | None, Parameter(help=_CHOOSE, show_default=False)] = None,
    dry_run: Annotated[bool, Parameter(help="only print what would be run", negative=())] = False,
    config: Config = None,
    save_config: SaveConfig = None,
    **options: Any,
) -> int:
    """Run every combination of the options that have several values, with every seed, and write a report.

    To continue after an interruption, use moca resume FOLDER, or the same command with the same --out; with more seeds,
    or more values of an option that already has several, it adds those runs. Start the command several times, on
    several GPUs or machines that see the folder, and they share the runs. With --choose the options are tuned first,
    without the test images. Combinations of a learner and a perturbation that are incompatible are skipped.
    """
    if seeds is not None and seed:
        raise MocaError("give --seeds, how many there are, or --seed, which ones; not both")
    own = {"seeds": seed or seeds, "methods": methods, "jobs": jobs, "out": out, "track": track, "choose": choose}
    with with_config({**given(options), **own}, config, None if dry_run else save_config) as settings:
        with loading():
            from moca import api

        if dry_run:
            show_intent(api.intended(progress=True, **{"seeds": 3} | settings))
            if save_config:
                aside(f"'{save_config}' is not written, as --dry-run only prints")
            return 0
        comparison = api.compare(progress=True, say=aside, **{"seeds": 3} | settings)
    return _show_and_report(comparison)


def _show_and_report(comparison: Any) -> int:
    """Print a comparison and write its HTML report; return the exit code."""
    from moca.report.chosen import Chosen
    from moca.report.page import write_report

    show_comparison(comparison)
    code = _show_unfinished(comparison)
    page = comparison.write_report() if isinstance(comparison, Chosen) else write_report(comparison)
    say(f"Report: {from_here(page)}")
    return code


def demo(
    *,
    out: Annotated[Path, Parameter(help="folder to write to")] = Path("demo"),
    seeds: Annotated[int, Parameter(help="number of seeds")] = 8,
) -> int:
    """Compare plain replay with MOCA on split digits, in a few minutes, and write a report."""
    with loading():
        from moca.demo import demo

    comparison, page = demo(out, seeds)
    show_comparison(comparison)
    say(f"Report: {page.resolve()}")
    return _show_unfinished(comparison)


def ls(*names: str) -> None:
    """List learners, perturbations, models, trackers, heads, optimisers, schedules and data sets; or describe some.

    The description has a summary, the paper, the path of the card, the options with their defaults, the recipes, and
    what it cannot be combined with and why.

    Parameters
    ----------
    names
        Any of these, such as er_ace, wap or cifar100; the dotted path of your own; or a kind, such as learners.
    """
    from moca.cli.parts import CARDS, about, lines
    from moca.data.catalogue import descriptions

    kinds = lines() | {"data sets": {entry: (line, "") for entry, line in descriptions().items()}}
    found = []
    if others := [name for name in names if name not in kinds]:
        with loading():
            found = [one for name in others for one in about(name)]
    if listed := {kind: kinds[kind] for kind in names or kinds if kind in kinds}:
        show_lines(listed, f"Options, recipes and paper of one: moca ls NAME. Cards: {CARDS}")
    for one in found:
        show_about(one)


_COMMANDS: dict[str, dict[str, Any]] = {
    "Experiments": {
        "demo": demo,
        "run": with_run_options(run),
        "compare": with_run_options(compare, several=True, without=("seed",)),
        "resume": resume,
        "runs": runs,
        "report": report,
        "analyse": analyse,
    },
    "A model that keeps learning": {"learn": learn, "predict": predict, "model": model_app, "serve": serve},
    "Data and methods": {"data": data_app, "ls": ls},
    "The paper, and speed": {"paper": paper_app, "bench": bench},
}
"""The commands, as the help lists them."""
for _number, (_title, _commands) in enumerate(_COMMANDS.items()):
    _group = Group(_title, sort_key=_number)
    for _place, (_name, _command) in enumerate(_commands.items()):
        app.command(_command, name=None if isinstance(_command, App) else _name)
        app[_name].group, app[_name].sort_key = _group, _place
        app[_name].version_flags = ()  # `moca predict --version 1` is a model's; moca's own is `moca --version`
        if _name in ("run", "compare", "learn"):
            app[_name].help_epilogue = _CHOICES
app["--help"].group = app["--version"].group = Group("Options", sort_key=len(_COMMANDS))


def main(words: Sequence[str] | None = None) -> None:
    """Entry point of the `moca` command; `words` are its arguments, by default those of the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.closed:
        sys.stdout.reconfigure(errors="replace")  # a terminal without "±" shows "?" instead of failing
    warnings.showwarning = _show_warning
    warnings.filterwarnings("ignore", module="PIL")  # files that it has doubts about; moca names those it cannot use
    try:
        code = app(words, print_error=False, exit_on_error=False) or 0
        sys.stdout.flush()
    except CycloptsError as error:
        code = _explain(hinted(error), 2)
    except MocaError as error:
        code = _explain(str(error), 130 if isinstance(error, Interrupted) else 1)
    except KeyboardInterrupt:
        code = _explain("stopped at once", 130)
    except Exception as error:
        line = noted(error)
        if line is not None:  # raised in user code: show the traceback from there on, without moca's own frames
            sys.stderr.write(from_theirs_on(error))
            code = _explain(line, 1)
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EPIPE):
            _drop_output()
            disk_full = error.errno == errno.ENOSPC  # a closed pipe, as with head, needs no message
            code = _explain(f"the output cannot be written: {error.strerror}", 1) if disk_full else 1
        else:
            raise
    sys.exit(code)


def _drop_output() -> None:
    """Discard buffered output that cannot be written: flushing it at exit would raise a second error."""
    with suppress(OSError):
        sys.stdout.close()
    sys.stdout = io.StringIO()


_SHOW = warnings.showwarning


def _show_warning(message: Warning | str, *about: Any, **more: Any) -> None:
    """Print moca's own warnings as one line; leave all others to Python."""
    if isinstance(message, MocaWarning):
        aside(f"moca: {as_options(str(message))}")
    else:
        _SHOW(message, *about, **more)


def _show_run(result: Any) -> int:
    """Print a run's numbers, or why it did not finish; return the exit code."""
    if not result.finished:
        return _explain(result.message, _code([result]))
    show_result(result)
    return 0


def _show_unfinished(comparison: Any) -> int:
    """Print which runs did not finish and why; return the exit code."""
    for result in comparison.results:
        if not result.finished:
            complain(f"{result.folder.name}: {as_options(result.message)}")
    return _code(comparison.results)


def _code(results: Sequence[Any]) -> int:
    """1 if resuming these runs would try some of them again, 3 if nothing is left to do but some diverged, else 0."""
    statuses = {result.status for result in results}
    return 1 if statuses - {"finished", "diverged"} else 3 if "diverged" in statuses else 0


def _explain(message: str, code: int) -> int:
    """Print an error as the command line says it; return the exit code."""
    complain(as_options(message))
    return code
