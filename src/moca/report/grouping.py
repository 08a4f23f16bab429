"""Which runs belong to one method, and which can be compared, by their settings and images; and how to name them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from moca.data import Dataset, catalogue
from moca.data.protocol import Protocol, deal
from moca.defaults import recipe_places, with_recipe
from moca.engine.result import Result
from moca.settings import COMMON, ELSEWHERE, VARIANTS, Absent, Choice, Label, Named, Own, ReadyMade, Run, word

T = TypeVar("T")
STREAM = ("data", "image_size", "protocol", "tasks", "class_order", "arrival", "validation")
"""Settings that decide which samples come when, and which images a run is evaluated on."""


def method(run: Run, without: Iterable[str] = ()) -> str:
    """A key that is equal for runs of one method, which differ at most in seed, in where they ran, in `without`, and in
    a memory that they do not use."""
    unused = () if run.uses_memory else ("memory",)
    return _dumped(run, {*ELSEWHERE, *without, *unused} & Run.model_fields.keys()) + run.data_name


def streams(results: Sequence[Result], without: Iterable[str] = ()) -> list[str]:
    """For each run a key that is equal for runs that learn the same tasks and are evaluated on the same images, apart
    from the settings in `without`.

    Images are compared by fingerprint, since folders of the same name may hold different ones. Runs of an older moca,
    which recorded no fingerprint, are grouped with the first run that did.
    """
    others = Run.model_fields.keys() - set(STREAM) | set(without)
    keys = [_dumped(_filled_in(result.settings), others) + result.settings.data_name for result in results]
    images = [_images(result) for result in results]
    first = {key: fingerprint for key, fingerprint in reversed([*zip(keys, images, strict=True)]) if fingerprint}
    return [key + (fingerprint or first.get(key, "")) for key, fingerprint in zip(keys, images, strict=True)]


def _images(result: Result) -> str:
    """The fingerprint of a run's images.

    For a known data set it defaults to that of the published copy. It is empty if no single copy was published: all
    copies then count as the same.
    """
    recorded = str(result.environment.get("data", "")).partition("/")[0]  # after it: the weights of a frozen encoder
    known = _known(result.settings)
    return recorded if known is None else (recorded or known.fingerprint) * known.exact


def _known(run: Run) -> catalogue.Known | None:
    """The data set if moca knows it by name, None for a folder, even one of the same name."""
    name = run.data if isinstance(run.data, str) else run.data_name
    return catalogue.known(name) if name in catalogue.names() else None


def protocol(run: Run) -> str:
    """The name of a run's protocol; if it was left out, that of the data set's first one; empty if there is none."""
    known = _known(run)
    return run.protocol or next(iter(known.protocols if known else ()), "")


def _filled_in(run: Run) -> Run:
    """Settings with the protocol's task sizes and class order, in case an older version left them open."""
    known = _known(run)
    if known is None:
        return run
    used = known.protocols.get(protocol(run), Protocol((), ()))
    tasks = run.tasks or used.tasks_for(len(known.classes))
    if isinstance(tasks, int) and tasks <= len(known.classes):
        tasks = tuple(map(len, deal(range(len(known.classes)), tasks, run.data_name)))
    return run.model_copy(update={"tasks": tasks, "class_order": run.class_order or used.class_order})


def _dumped(run: Run, without: set[str]) -> str:
    dumped = run.model_dump(mode="json", by_alias=True, exclude={*without, "data"})
    return json.dumps(dumped | ({"protocol": protocol(run)} if "protocol" in dumped else {}), sort_keys=True)


def judged(run: Run) -> str:
    """The images that a run is evaluated on, in words."""
    return f"a held-out share ({run.validation:g}) of the training images" if run.validation else "the test images"


def titles(results: Sequence[Result]) -> list[str]:
    """A title for the setting of each run: data, protocol, tasks, evaluation images, and more if it is ambiguous."""
    runs = [_filled_in(result.settings) for result in results]
    titles = [_title(run) for run in runs]
    names = ("class_order", "arrival", "image_size", "validation", "tasks", "data")
    facts = [[f"{name.replace('_', ' ')} {word(getattr(run, name))}" for run in runs] for name in names]
    for values in (*facts, [f"images {_images(result)[:8]}" for result in results]):
        unclear = _ambiguous(titles, values)
        titles = [title + f", {value}" * (title in unclear) for title, value in zip(titles, values, strict=True)]
    return titles


def _title(run: Run) -> str:
    held_out = "on held-out training images" * (run.validation > 0)
    return ", ".join(filter(None, [run.data_name, protocol(run), _tasks(run), held_out]))


def _tasks(run: Run) -> str:
    count = len(run.tasks) if isinstance(run.tasks, tuple) else run.tasks
    return "" if count is None else f"{count} task{'s' * (count != 1)}"


def labels(runs: Sequence[Run]) -> list[Label]:
    """A name for each run, as short as possible, but never the same for runs of two methods.

    It has the learner and the perturbation with those of their options that vary or are not the recipe's. Common
    settings, which belong to no method in particular, are added wherever they vary, as numbers mean little without them
    (the memory only for methods that use it); any other setting, such as lr, where it varies for one learner: different
    learners have recipes of their own.
    """
    methods = [method(run) for run in runs]
    of_each = dict(zip(methods, runs, strict=True))  # a name depends on nothing in which seeds of a method differ
    named = dict(zip(of_each, _labels([*of_each.values()]), strict=True))
    return [named[one] for one in methods]


def _learner(run: Run) -> str:
    """The learner whose recipe a run follows: a teacher follows that of the learner it is of."""
    return f"{run.learner.name} {str(getattr(run.learner, 'of', '')).partition(':')[0]}"


def _labels(runs: Sequence[Run]) -> list[Label]:
    learners, perturbations = [run.learner for run in runs], [run.perturb for run in runs]
    parts = (
        [_with_options(part, [usual(part, run), *known]) for part, run in zip(parts, runs, strict=True)]
        for parts, known in ((learners, distinct(learners)), (perturbations, distinct(perturbations)))
    )
    named = [*map(Label, *parts)]
    others = [name for name in Run.model_fields if name not in (*ELSEWHERE, *STREAM, "learner", "perturb")]
    with_memory, of_learner = [run.uses_memory for run in runs], [_learner(run) for run in runs]
    for name in others:
        values = [word(getattr(run, name)) for run in runs]
        using = [uses or name != "memory" for uses in with_memory]
        varies = name in COMMON and len({value for value, used in zip(values, using, strict=True) if used}) > 1
        among: Sequence[object] = named if name in COMMON else of_learner
        unclear = _ambiguous(among, values)
        named = [label.also(f"{name}={value}") if (varies and used and value != "None") or one in unclear else label
                 for label, one, value, used in zip(named, among, values, using, strict=True)]  # fmt: skip
    return named


def distinct(values: Iterable[T]) -> list[T]:
    """Each value once, in order; they need not be hashable: an encoder's option may be a list."""
    found: list[T] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _ambiguous(names: Sequence[T], values: Sequence[str]) -> set[T]:
    """The names that occur with more than one value."""
    counts = Counter(name for name, _ in {*zip(names, values, strict=True)})
    return {name for name, count in counts.items() if count > 1}


def usual(choice: Choice, run: Run) -> Choice:
    """A learner or a perturbation of that name as it would be in this run if no option was given."""
    if isinstance(choice, Absent):
        return choice  # its defaults and recipes are not known here
    default = type(choice)(name=choice.name)
    return default if isinstance(choice, ReadyMade) else in_place(default, run)  # recipes do not apply to objects


def in_place(choice: Choice, run: Run) -> Choice:
    """A learner or a perturbation as it would be in this run: options that were not given are its recipe's."""
    return with_recipe(choice, recipe_places(run.data_name, _recipe(run), run.memory))


def _recipe(run: Run) -> str:
    """The name of the recipe that completed a run: its protocol's or, for data without one, small or own."""
    if run.frozen is not None:
        return "own"
    if isinstance(run.data, Own) and isinstance(run.data.object, Dataset):
        return run.protocol or run.data.object.protocol.name
    known = _known(run)
    return protocol(run) or ("small" if known and known.embedded else "own")


def _with_options(choice: Choice, among: Sequence[Choice]) -> Named:
    """The name of a choice, with the options in which it differs from others of that name, and its `VARIANTS`."""
    alike = [other for other in among if other.name == choice.name]
    varied = {key for key, value in choice if any(getattr(other, key, None) != value for other in alike)}
    named = {key for key, value in choice if (value if key in VARIANTS else key in varied and value is not None)}
    return choice.naming(named)
