"""The data set of a run, and the stream of tasks over it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from moca.arrivals import arriving
from moca.data import Dataset, Store, catalogue, load
from moca.data.from_python import dataset
from moca.data.progress import Watch, silent
from moca.data.sizing import handy_size
from moca.defaults import complete
from moca.engine.device import pick_device
from moca.engine.held_out import holding_out
from moca.errors import MocaError
from moca.models.frozen import Frozen
from moca.settings import Own, Run
from moca.stream_checks import refuse_untested
from moca.streams import Stream, class_incremental


class Material:
    """Completes the settings of runs and builds their streams; data sets and streams are cached.

    `watch` is called while images are read from a folder, and while a frozen encoder encodes them.
    """

    def __init__(self, watch: Watch = silent) -> None:
        self.watch = watch
        self.sets: dict[Any, Dataset] = {}
        self.streams: dict[Any, Stream] = {}

    def __call__(self, given: Run) -> tuple[Run, Stream]:
        """The completed settings of a run, and its stream."""
        own = given.data.object if isinstance(given.data, Own) else None
        if isinstance(own, Stream):
            return self._on_stream(given, own)
        run = complete(given, data := self.dataset(given))
        assert run.tasks is not None
        assert run.class_order is not None
        seed = run.seed.of("classes")
        key = (id(data), run.tasks, run.class_order, run.validation, run.arrival, seed)
        if key not in self.streams:
            dealt = class_incremental(data, run.tasks, run.class_order, run.validation, seed)
            self.streams[key] = arriving(dealt, run.arrival, seed)
        return run, self._holding_out(self.streams[key], run)

    def dataset(self, run: Run) -> Dataset:
        """The data set of a run, with its protocol."""
        own = run.data.object if isinstance(run.data, Own) else run.data
        if own is None:
            raise MocaError(
                f"the data of this run ('{run.data.name}') were a Python object, which settings.json cannot hold; "  # type: ignore[union-attr]
                "resume from Python, passing them again: moca.resume(folder, data=...)"
            )
        named = isinstance(own, str)
        key = (own if named else id(own), run.data_dir, run.image_size, run.protocol, _encoder(run))
        if key not in self.sets:
            size = run.image_size or (_size(own, run) if named else None)
            data = load(own, data_dir=run.data_dir, size=size, watch=self.watch) if named else _made(own)
            if size != run.image_size:
                data = replace(data, protocol=replace(data.protocol, image_size=size))
            self.sets[key] = _frozen(data if run.protocol is None else data.using(run.protocol), run, self.watch)
        return self.sets[key]

    def _on_features(self, given: Run, stream: Stream) -> Stream:
        """A user-defined stream with the frozen encoder's features instead of images; cached."""
        if (key := (id(stream), _encoder(given))) not in self.streams:
            data = _frozen(replace(stream.dataset, train=stream.train, test=stream.test), given, self.watch)
            self.streams[key] = Stream(data, stream.tasks, data.train, data.test, stream.names)
        return self.streams[key]

    def _on_stream(self, given: Run, stream: Stream) -> tuple[Run, Stream]:
        """Complete a run on a user-defined stream, whose tasks cannot be changed by settings."""
        resumed = given.model_fields_set == set(Run.model_fields)  # read back from settings.json
        fixed = {"tasks", "class_order", "protocol", "validation", "arrival"} & given.model_fields_set
        if fixed and not resumed:
            raise MocaError(f"a stream has its own tasks; leave out {', '.join(sorted(fixed))}")
        refuse_untested(stream)
        sizes = tuple(len(task.tested) for task in stream)
        if given.frozen is not None:
            stream = self._on_features(given, stream)
        run = complete(given, stream.dataset).model_copy(update={"tasks": sizes})
        return run, self._holding_out(stream, run)

    def _holding_out(self, stream: Stream, run: Run) -> Stream:
        """The stream with held-out samples, if the learner needs them; cached, so runs that hold out the same samples
        share one stream."""
        learner, seed = run.learner.make(), run.seed.of("data")
        key = (id(stream), learner.holds_out, seed)
        if key not in self.streams:
            self.streams[key] = holding_out(stream, learner, seed)
        return self.streams[key]


def _encoder(run: Run) -> Any:
    """A key that identifies the run's frozen encoder, if it has one."""
    return run.frozen and (str(run.frozen), id(run.frozen.object), run.device)


def _frozen(data: Dataset, run: Run, watch: Watch) -> Dataset:
    """The data set, with the features of the run's frozen encoder instead of images if it has one."""
    if run.frozen is None:
        return data
    return Frozen(run.frozen, data.shape, data.protocol, pick_device(run.device)).dataset(data, watch)


def _size(data: str, run: Run) -> int | None:
    """The size to which the images of a folder are resized if none is set: on a CPU, large ones train too slowly."""
    path = Path(data).expanduser()
    folder = path.is_dir() and data not in Store(run.data_dir) and data not in catalogue.names()
    return handy_size(path) if folder and pick_device(run.device).type == "cpu" else None


def _made(own: Any) -> Dataset:
    """A data set from Python objects: (train, test), or training data only."""
    if isinstance(own, tuple) and len(own) == 2 and all(isinstance(part, tuple) for part in own):
        return dataset(*own)
    return dataset(own)
