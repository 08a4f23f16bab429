"""Which runs are of one method, and which can be held against each other: asked of their settings and their images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from moca.data import catalogue
from moca.data.protocol import Protocol, deal
from moca.engine.result import Result
from moca.settings import COMMON, ELSEWHERE, VARIANTS, Run, Settings, word

STREAM = ("data", "image_size", "protocol", "tasks", "class_order", "arrival", "validation")
"""What decides which samples come when, and which images the numbers are about."""


def method(run: Run, without: Iterable[str] = ()) -> str:
    """Equal for runs that differ at most in their seed and where they were run, and in what is left out."""
    return _dumped(run, {*ELSEWHERE, *without} & Run.model_fields.keys()) + run.data_name


def streams(results: Sequence[Result]) -> list[str]:
    """Of each run a word, the same for those that learn the same tasks and are judged on the same images. Folders of
    one name may hold others; runs of an older moca, which do not say what they had, go with the first that does."""
    asked = [_dumped(_settled(r.settings), Run.model_fields.keys() - set(STREAM)) + r.settings.data_name
             for r in results]  # fmt: skip
    images = [_images(result) for result in results]
    first = {word: found for word, found in reversed([*zip(asked, images, strict=True)]) if found}
    return [word + (found or first.get(word, "")) for word, found in zip(asked, images, strict=True)]


def _images(result: Result) -> str:
    """The fingerprint of its images; those of a set that moca knows are the right ones, unless the run says otherwise.
    Of a set without a right copy all count as the same."""
    kept = str(result.environment.get("data", "")).partition("/")[0]  # behind it are the weights of a frozen encoder
    known = _known(result.settings)
    return kept if known is None else (kept or known.fingerprint) * known.exact


def _known(run: Run) -> catalogue.Known | None:
    """The data set, where it is one that moca knows, and not a folder which is called so."""
    name = run.data if isinstance(run.data, str) else run.data_name
    return catalogue.known(name) if name in catalogue.names() else None


def protocol(run: Run) -> str:
    """What its protocol is called, also where it is the data set's first and was left out; empty where it has none."""
    known = _known(run)
    return run.protocol or next(iter(known.protocols if known else ()), "")


def _settled(run: Run) -> Run:
    """With the tasks, by their sizes, and the class order of its protocol, where an older version left them open."""
    known = _known(run)
    if known is None:
        return run
    used = known.protocols.get(protocol(run), Protocol((), ()))
    tasks = run.tasks or used.tasks_for(len(known.classes))
    if isinstance(tasks, int) and tasks <= len(known.classes):
        tasks = tuple(map(len, deal(range(len(known.classes)), tasks, run.data_name)))
    return run.model_copy(update={"tasks": tasks, "class_order": run.class_order or used.class_order})


def _dumped(run: Run, without: set[str]) -> str:
    kept = run.model_dump(mode="json", by_alias=True, exclude={*without, "data"})
    return json.dumps(kept | ({"protocol": protocol(run)} if "protocol" in kept else {}), sort_keys=True)


def judged(run: Run) -> str:
    """The images that the numbers of a run are about."""
    return f"a held-out share ({run.validation:g}) of the training images" if run.validation else "the test images"


def titles(results: Sequence[Result]) -> list[str]:
    """What the setting of each of these runs is called: data, protocol, tasks, the images of its numbers, and what else
    it takes to tell two of them apart."""
    runs = [_settled(result.settings) for result in results]
    made = [_title(run) for run in runs]
    names = ("class_order", "arrival", "image_size", "validation", "tasks", "data")
    facts = [[f"{name.replace('_', ' ')} {word(getattr(run, name))}" for run in runs] for name in names]
    for told in (*facts, [f"images {_images(result)[:8]}" for result in results]):
        unclear = _of_several(made, told)
        made = [title + f", {value}" * (title in unclear) for title, value in zip(made, told, strict=True)]
    return made


def _title(run: Run) -> str:
    held_out = "on held-out training images" * (run.validation > 0)
    return ", ".join(filter(None, [run.data_name, protocol(run), _tasks(run), held_out]))


def _tasks(run: Run) -> str:
    count = len(run.tasks) if isinstance(run.tasks, tuple) else run.tasks
    return "" if count is None else f"{count} task{'s' * (count != 1)}"


def labels(runs: Sequence[Run]) -> list[str]:
    """A name for each run that is as short as can be while runs of two methods never share one: learner and
    perturbation, those of their options that vary, and other settings that do: those that no method has of its own
    wherever they vary, as numbers beside others say little without; the memory only of those that use it."""
    made = [_with_options(run.learner, [r.learner for r in runs]) for run in runs]
    moved = [_with_options(run.perturb, [r.perturb for r in runs]) for run in runs]
    made = [label + f"+{perturb}" * (perturb != "none") for label, perturb in zip(made, moved, strict=True)]
    others = [name for name in Run.model_fields if name not in (*ELSEWHERE, *STREAM, "learner", "perturb")]
    for name in others:
        values = [word(getattr(run, name)) for run in runs]
        using = [run.uses_memory or name != "memory" for run in runs]
        varies = name in COMMON and len({value for value, used in zip(values, using, strict=True) if used}) > 1
        unclear = _of_several(made, values)
        made = [label + f" {name}={value}" * ((varies and used and value != "None") or label in unclear)
                for label, value, used in zip(made, values, using, strict=True)]  # fmt: skip
    return made


def _of_several(names: Sequence[str], values: Sequence[str]) -> set[str]:
    """The names that stand for more than one value."""
    counts = Counter(name for name, _ in {*zip(names, values, strict=True)})
    return {name for name, count in counts.items() if count > 1}


def _with_options(choice: Settings, among: Sequence[Settings]) -> str:
    """The name, with the options in which it differs from another choice of that name, where they are set, and those
    that make another method of it."""
    name = str(getattr(choice, "name", choice))
    alike = [other for other in among if getattr(other, "name", other) == name]
    varied = {key: value for key, value in choice if any(getattr(other, key, None) != value for other in alike)}
    named = {key: value for key, value in choice if (value if key in VARIANTS else key in varied and value is not None)}
    fields = type(choice).model_fields
    told = [f"{fields[key].alias or key}={word(value)}" for key, value in named.items()]
    return name + (":" + ",".join(told) if told else "")
