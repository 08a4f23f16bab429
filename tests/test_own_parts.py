"""A user's own data, module, learner and perturbation: in runs, comparisons, settings.json and after a stop."""

import importlib
import json
import linecache
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import moca
from moca import MocaError, Result
from moca.engine.folder import RunFolder
from moca.measures.analyse import EndedRun
from moca.perturb.gaussian import Gaussian
from moca.report.notes import EDITED, mixed
from tests.engine.helpers import begin, finish
from tests.engine.test_run import assert_same_run, interrupt_when
from tests.engine.test_ways import on_gpu

SMALL = {"epochs": 2, "batch": 16, "memory": 12, "device": "cpu", "threads": 1, "head": "cosine:scale=8", "lr": 0.1}
FEW = SMALL | {"batch": 64}
"""A fourth of the steps."""


def net(shape, width: int = 8):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), width), nn.BatchNorm1d(width), nn.ReLU())


CAPTURED = {"device": "cuda", "execution": "captured", "precision": "fp32"}

WRONG = (0.5, (0.5, 0.5), ((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)), ([0.5], [0.0]))
"""What is no normalisation of grey images."""


def normalised(told):
    made = net((1, 8, 8))
    made.normalisation = told
    return made


class Plain(moca.Learner):
    """Replay without anything else."""

    def losses(self, new, *replays):
        terms = {"new": cross_entropy(new.logits, new.y)}
        for replay in replays:
            terms["replay"] = cross_entropy(self.model.classify(self.perturbed(replay, new)), replay.y)
        return terms


class Silent(Plain):
    """Keeps to itself that a task has begun: no class would ever be old."""

    def begin_task(self, task):
        self.classes = task.classes


class Some(Plain):
    """Leaves out the scores of some classes."""

    def predict(self, x):
        scores = self.model(x)
        return scores[:, : min(6, scores.shape[1] - 1)]


class Picked(Plain):
    """Returns the classes themselves instead of their scores."""

    def predict(self, x):
        return self.model(x).argmax(1)


class Back(moca.Perturbation):
    """Towards the feature before."""

    def direction(self, replay, new):
        return replay.features.roll(1, 0)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    labels = np.repeat(["ant", "bee", "cow", "doe"], 30)
    places = np.repeat(np.arange(4), 30)
    images = rng.integers(0, 60, (120, 6, 6, 1))
    images[np.arange(120), places + 1, places + 1] += 190
    return images.astype(np.uint8), labels


def test_arrays_as_data(arrays, tmp_path):
    result = moca.run(data=arrays, tasks=2, out=tmp_path / "a", **SMALL | {"epochs": 40, "memory": 40})
    assert result.final_accuracy > 0.6
    assert json.loads((tmp_path / "a" / "settings.json").read_text())["data"] == {"name": "tuple", "own": True}
    assert Result.load(tmp_path / "a").final_accuracy == result.final_accuracy


def test_train_and_test_of_ones_own(arrays, tmp_path):
    images, labels = arrays
    pairs = (images[::2], labels[::2]), (images[1::2], labels[1::2])
    result = moca.run(data=pairs, out=tmp_path / "a", **SMALL)
    dataset = moca.dataset(*pairs)
    assert len(dataset.test) == 60
    assert_same_run(result.folder, moca.run(data=dataset, out=tmp_path / "b", **SMALL).folder)


class Samples(torch.utils.data.Dataset):
    def __init__(self, images, labels):
        self.rows = list(zip(images, labels, strict=True))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        image, label = self.rows[index]
        return torch.from_numpy(image).permute(2, 0, 1), label


def test_a_torch_dataset(arrays, tmp_path):
    ours = moca.run(data=Samples(*arrays), out=tmp_path / "a", **SMALL)
    assert_same_run(ours.folder, moca.run(data=arrays, out=tmp_path / "b", **SMALL).folder)


def test_a_stream_of_ones_own(tmp_path):
    stream = moca.class_incremental(moca.load("digits"), [3, 4, 3])
    result = moca.run(data=stream[:2], out=tmp_path / "a", **SMALL | {"batch": 64})
    assert len(result.accuracy_matrix) == 3
    assert "the tasks have 7 of the 10 classes" in result.notes[0]
    with pytest.raises(MocaError, match="a stream has its own tasks; leave out tasks"):
        moca.run(data=stream, tasks=3)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return moca.run(learner="er", perturb=Back, out=tmp_path_factory.mktemp("er") / "b", **FEW)


@pytest.mark.parametrize("given", ["class", "object", "path"])
def test_an_own_learner_and_perturbation_equal_to_ours(given, theirs, tmp_path):
    """The class, an object of it, or its path: the same run, which is that of er."""
    learner = {"class": Plain, "object": Plain(), "path": "tests.test_own_parts.Plain"}[given]
    perturb = {"class": Back, "object": Back(lam=1.0), "path": "tests.test_own_parts.Back"}[given]
    ours = moca.run(learner=learner, perturb=perturb, out=tmp_path / "a", **FEW)
    assert ours.accuracy_matrix == theirs.accuracy_matrix
    kept = json.loads((tmp_path / "a" / "settings.json").read_text())
    assert kept["learner"] == {"name": "tests.test_own_parts.Plain", "adjust": 0}
    assert kept["perturb"]["name"] == "tests.test_own_parts.Back"
    assert Result.load(tmp_path / "a").settings.model_dump() == ours.settings.model_dump()


def test_an_own_module_and_a_function_that_makes_one(tmp_path):
    made = moca.run(model=net, out=tmp_path / "a", **FEW)
    assert json.loads((tmp_path / "a" / "settings.json").read_text())["model"] == {
        "name": "tests.test_own_parts.net",
        "width": 8,
    }
    assert made.status == "finished"
    module = net((1, 8, 8), width=5)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    comparison = moca.compare(model=module, perturb=["none", "vt"], seeds=2, jobs=2, out=tmp_path / "c", **FEW)
    assert [len(row.finished) for row in comparison.rows] == [2, 2]
    assert all(value.equal(before[name]) for name, value in module.state_dict().items()), "copies were trained"


def test_the_batchnorm_of_an_own_module_keeps_batches_apart():
    """One pass over new and replayed samples is two separate ones: features, gradients and running statistics."""
    from moca.engine.material import Material
    from moca.engine.trainer import Trainer
    from moca.settings import Run, validate

    module = net((1, 8, 8))
    trainer = Trainer(*Material()(validate(Run, SMALL | {"model": module, "data": "digits"})))
    encoder = trainer.learning.model.encoder.double().train()
    new, replay = torch.randn(9, 1, 8, 8).double(), 3 + 2 * torch.randn(7, 1, 8, 8).double()
    from moca.models.batch_norm.batches import batches_apart

    twin = net((1, 8, 8)).double()
    twin.load_state_dict(encoder.state_dict())
    twin.train()
    with batches_apart([9, 7]):
        h = encoder(torch.cat([new, replay]))
    apart = torch.cat([twin(new), twin(replay)])
    torch.testing.assert_close(h, apart)
    for ours, theirs in zip(encoder.buffers(), twin.buffers(), strict=True):
        if ours.dtype.is_floating_point:
            torch.testing.assert_close(ours, theirs)
    h.pow(2).sum().backward()
    apart.pow(2).sum().backward()
    for ours, theirs in zip(encoder.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_run_with_parts_of_python_goes_on_from_python(arrays, tmp_path):
    module = net((1, 6, 6))
    settings = SMALL | {"data": arrays, "model": module, "epochs": 20}
    whole = moca.run(**settings, out=tmp_path / "whole", keep_model=False)
    half = finish(begin(settings, tmp_path / "half", interrupt_when(1)))
    assert half.status == "interrupted"
    assert half.message.endswith(f"continue with: moca.resume('{tmp_path / 'half'}', data=..., model=...)")
    with pytest.raises(MocaError, match=r"Python object, which settings.json cannot hold; resume from Python"):
        moca.resume(tmp_path / "half")
    with pytest.raises(MocaError, match="'Sequential' was a Python object"):
        moca.resume(tmp_path / "half", data=arrays)
    resumed = moca.resume(tmp_path / "half", data=arrays, model=module, keep_model=False)
    assert_same_run(whole.folder, resumed.folder)


@pytest.mark.parametrize("way", [{}, pytest.param(CAPTURED, marks=on_gpu)], ids=["cpu", "captured"])
def test_dropout_of_ones_own_follows_the_seed(arrays, tmp_path, way):
    module = nn.Sequential(net((1, 6, 6)), nn.Dropout(0.5))
    settings = SMALL | way | {"data": arrays, "model": module, "keep_model": False}
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    whole = moca.run(**settings, out=tmp_path / "whole")
    assert torch.rand(3).equal(expected)  # nor does it change what others draw
    finish(begin({k: v for k, v in settings.items() if k != "keep_model"}, tmp_path / "half", interrupt_when(1)))
    torch.manual_seed(8)
    given = {name: settings[name] for name in ("data", "model", "keep_model")}
    assert_same_run(whole.folder, moca.resume(tmp_path / "half", **given).folder)
    other = moca.run(**settings | {"seed": "0:perturb=1"}, out=tmp_path / "other")  # ER draws nothing else of it
    assert (other.folder / "steps.jsonl").read_text() != (whole.folder / "steps.jsonl").read_text()


class Waiting(nn.Module):
    """Holds up a GPU for about a millisecond, while steps of other runs are begun."""

    def forward(self, x):
        if x.is_cuda:
            torch.cuda._sleep(1_000_000)
        return x


@pytest.mark.parametrize("way", [pytest.param(CAPTURED, marks=on_gpu)], ids=["captured"])  # on a CPU one at a time
def test_dropout_of_ones_own_does_not_depend_on_runs_beside(arrays, tmp_path, way):
    module = nn.Sequential(net((1, 6, 6)), Waiting(), nn.Dropout(0.5))
    settings = SMALL | way | {"data": arrays, "model": module, "perturb": ["none", "gaussian"], "epochs": 20}
    alone, packed = (moca.compare(**settings, seeds=4, jobs=jobs, out=tmp_path / str(jobs)) for jobs in (1, 8))
    assert [r.environment["packed"] for r in packed.results] == [8] * 8
    for one, other in zip(alone.results, packed.results, strict=True):
        assert (one.folder / "steps.jsonl").read_text() == (other.folder / "steps.jsonl").read_text()


def test_other_arrays_are_refused_on_resume(arrays, tmp_path):
    settings = SMALL | {"data": arrays, "epochs": 20}
    finish(begin(settings, tmp_path / "half", interrupt_when(1)))
    with pytest.raises(MocaError, match="have changed since"):
        moca.resume(tmp_path / "half", data=(arrays[0][:100], arrays[1][:100]))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": nn.Conv2d(1, 3, 3)}, "must make one feature vector of each image.*; wrap it in a module that"),
        ({"learner": Silent}, r"begin_task of 'Silent' must call super\(\).begin_task\(task\) first"),
        ({"learner": f"teacher:of={__name__}.Silent"}, "begin_task of 'Silent' must call super"),
        ({"learner": Some}, r"predict of '.*Some' must .* each of the 10 classes: \(n, 10\), not \(n, 6\)$"),
        ({"learner": Picked}, r"each of the 10 classes: \(n, 10\), not \(n,\)$"),
        ({"learner": Some, "classes": "unknown", "tasks": (4, 6)}, r"the 4 classes: \(n, 4\), not \(n, 3\)$"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(5, 3))}, "cannot take images of 1x8x8"),
        ({"model": net((1, 8, 8)).double()}, r"moca hands it float32: make it so with .float\(\)"),
        *(
            ({"frozen": normalised(n)}, r"normalisation .* must be \(mean, std\), .* every channel \(1\)")
            for n in WRONG
        ),
        (
            {"model": moca.Model(nn.Flatten(), nn.Linear(64, 10))},
            "a moca.Model has a classifier too; give its .encoder",
        ),
        ({"model": lambda shape: "no module"}, "must be a torch module or make one; it is of type str"),
        ({"learner": 3}, "a learner is written as name:option=value"),
        ({"learner": Back}, "learner"),
        ({"perturb": Plain}, "perturb"),
        ({"model": net, "perturb": "doa_new:site=stages"}, "has no stages to look into"),
        ({"out": 123}, "out= is the path of a folder, not 123"),
        ({"out": "a\0b"}, "cannot be the path of a folder"),
        ({"out": ""}, "cannot be the path of a folder"),
        ({"seeds": 3}, "it is for several runs: use moca.compare$"),
        ({"learner": ["er", "derpp"]}, "a run has one learner; to run several, use moca.compare$"),
        ({"lr": [0.1, 0.2]}, "a run has one lr; to run several, use moca.compare$"),
        ({"seed": (1, 2)}, "a run has one seed; to run several, use moca.compare$"),
        ({"data": 3}, "data"),
    ],
)
def test_mistakes_are_one_line(settings, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MocaError, match=said) as error:
        moca.run(**SMALL | {"epochs": 1, "batch": 64} | settings)
    assert "\n" not in str(error.value)


def defining(base, name, method):
    return type("Mine", (base,), {name: method})


@pytest.mark.parametrize(
    ("base", "name", "method", "wanted", "defined"),
    [
        (Back, "direction", lambda self, replay: replay.features, "self, replay, new", "self, replay"),
        (Back, "direction", lambda replay, new: replay.features, "self, replay, new", "replay, new"),
        (Back, "__call__", lambda self, replay: replay.features, "self, replay, new", "self, replay"),
        (Plain, "losses", lambda self, new, replay: {}, "self, new, *replays", "self, new, replay"),
        (Plain, "losses", lambda self, new: {}, "self, new, *replays", "self, new"),
        (Plain, "begin_task", lambda self: None, "self, task", "self"),
        (Plain, "end_task", lambda self: None, "self, samples", "self"),
        (Plain, "predict", lambda self, *, x: x, "self, x", "self, *, x"),
        (Plain, "update", lambda self, losses: None, "self, losses, optimiser", "self, losses"),
    ],
)
def test_a_method_that_does_not_take_what_it_is_given(base, name, method, wanted, defined, tmp_path):
    """Told before anything is learnt: the traceback would show only lines of moca."""
    told = f"'Mine' must define {name}({wanted}), not {name}({defined})"
    with pytest.raises(MocaError, match=f"^{re.escape(told)}$"):
        moca.run(**{"learner" if base is Plain else "perturb": defining(base, name, method)}, out=tmp_path / "a", **FEW)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("draws", "losses"),
    [
        (1, lambda self, new, replay=None: {}),
        (2, lambda self, new, one=None, other=None: {}),
        (0, lambda self, new: {}),
        (1, lambda self, *batches, **options: {}),
        (1, torch.no_grad()(lambda self, new, *replays: {})),
    ],
)
def test_methods_may_take_it_in_their_own_way(draws, losses):
    from moca.learners.base import Learner
    from moca.signatures import refuse_misfits

    mine = type("Mine", (Plain,), {"losses": losses, "draws": draws})
    refuse_misfits(mine(), Learner, ["losses"], several=draws)


def test_a_run_on_a_stream_goes_on(tmp_path):
    stream = moca.class_incremental(moca.load("digits"), [4, 3, 3])[:2]
    settings = FEW | {"data": stream}
    whole = moca.run(**settings, out=tmp_path / "whole", keep_model=False)
    assert whole.settings.tasks == (4, 3)
    finish(begin(settings, tmp_path / "half", interrupt_when(1)))
    assert_same_run(whole.folder, moca.resume(tmp_path / "half", data=stream, keep_model=False).folder)


def test_your_own_objects_share_nothing_between_runs():
    class Listing(moca.Learner):
        def __init__(self):
            super().__init__()
            self.log = []

    from moca.settings import Run, validate

    choice = validate(Run, {"learner": Listing()}).learner
    assert choice.make().log is not choice.make().log


def test_objects_with_arguments_of_their_own_are_compared(tmp_path):
    class Rolled(Back):
        def __init__(self, by):
            super().__init__()
            self.by = by

    found = moca.compare(**FEW, perturb=["none", Rolled(2)], out=tmp_path / "both")
    assert list(found) == ["er", "er+Rolled"]


def test_registered_parts_are_compared_side_by_side_too(tmp_path, monkeypatch):
    from moca import parts

    monkeypatch.setattr(parts.LEARNERS, "registered", {})
    moca.register(Plain, name="plain")
    comparison = moca.compare(learner=["er", "plain"], seeds=1, jobs=2, out=tmp_path / "c", **FEW)
    assert comparison.mistakes == []
    assert [len(row.finished) for row in comparison.rows] == [1, 1]


def test_a_learner_of_python_that_is_not_handed_in_again(tmp_path):
    class Local(Plain):
        pass

    half = finish(begin(FEW | {"data": "digits", "learner": Local}, tmp_path / "half", interrupt_when(1)))
    assert half.status == "interrupted"
    with pytest.raises(MocaError, match="'Local' was a Python object"):
        moca.resume(tmp_path / "half")
    assert moca.resume(tmp_path / "half", learner=Local).status == "finished"


def test_a_class_of_python_keeps_the_options_that_its_run_began_with(tmp_path):
    """Earlier, such a class took no recipe's options; a run that was interrupted then could not be resumed."""

    class Local(Gaussian):
        recipes = {"small": {"lambda": 1.75}}

    half = finish(begin(FEW | {"data": "digits", "perturb": Local}, tmp_path / "half", interrupt_when(1)))
    assert half.settings.perturb.lam == 1.75
    Local.recipes = {"small": {"lambda": 0.5}}
    resumed = moca.resume(tmp_path / "half", perturb=Local)
    assert (resumed.status, resumed.settings.perturb.lam) == ("finished", 1.75)
    ended = EndedRun(RunFolder(resumed.folder), Result.load(resumed.folder), "cpu", {"perturb": Local})
    assert ended.material[0].perturb.lam == 1.75


@pytest.mark.parametrize("base", [Plain, Back])
def test_a_misspelt_name_of_what_is_remembered_is_told_before_anything_is_learnt(base, tmp_path):
    class Mine(base):
        remembers = ("wieght",)
        weight = 1.0

        def check(self):
            self.weight = 2.0

    told = "'Mine' remembers 'wieght', but has none; did you mean 'weight'?"
    with pytest.raises(MocaError, match=re.escape(told)):
        moca.run(**{"learner" if base is Plain else "perturb": Mine}, out=tmp_path / "a", **SMALL)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("base", [Plain, Back])
def test_what_is_remembered_must_be_there_from_the_start(base, tmp_path):
    mine = {"learner" if base is Plain else "perturb": type("Mine", (base,), {"remembers": ("mean",)})}
    told = "'Mine' remembers 'mean', but has none; begin with mean = None in the class, or in a learner's prepare()"
    with pytest.raises(MocaError, match=f"^{re.escape(told)}$"):
        moca.run(**mine, out=tmp_path / "a", **SMALL)


def test_a_run_where_gradients_are_off_says_so(tmp_path):
    with torch.no_grad(), pytest.raises(MocaError, match=r"gradients are off; call moca outside torch.no_grad\(\)"):
        moca.run(**FEW, out=tmp_path / "run")


def test_a_comparison_whose_own_code_was_edited_says_so(tmp_path, monkeypatch):
    """Runs that are done are not repeated, so their numbers are those of the code as it was."""
    monkeypatch.syspath_prepend(tmp_path)
    code = """import moca


class Mine(moca.Perturbation):
    def direction(self, replay, new):
        return replay.features.flip(0)


class Other(moca.Perturbation):
    def direction(self, replay, new):
        return -replay.features.flip(0)
"""
    (tmp_path / "edited_part.py").write_text(code)

    def told(seeds):
        one = FEW | {"epochs": 1, "tasks": 2}
        methods = ["er", "er+edited_part.Mine", "er+edited_part.Other"]
        return mixed(moca.compare(methods=methods, seeds=seeds, out=tmp_path / "runs", **one).rows)

    assert told(1) == {}
    (tmp_path / "edited_part.py").write_text(code.replace("return -replay", "return 0.5 * -replay"))
    importlib.reload(importlib.import_module("edited_part"))
    assert told(1) == told(2) == {EDITED: ["er+edited_part.Other"]}


def test_in_a_notebook_a_comparison_may_be_repeated_and_analysed_and_says_so_too(tmp_path, monkeypatch):
    """Python finds the source of a cell's functions, as notebooks keep it, but not that of its classes."""

    def told(seeds, sign):
        code = f"""import moca
class Mine(moca.Perturbation):
    def direction(self, replay, new):
        return {sign}replay.features.flip(0)
"""
        monkeypatch.setitem(linecache.cache, f"<cell {sign}>", (len(code), None, code.splitlines(True), ""))
        exec(compile(code, f"<cell {sign}>", "exec"), cell := {"__name__": "__main__"})
        one = FEW | {"epochs": 1, "tasks": 2, "record": "weights"}
        made = moca.compare(perturb=[cell["Mine"]], seeds=seeds, out=tmp_path / "runs", **one)
        return mixed(made.rows), made.results[0]

    assert told(1, "-")[0] == {}
    again, run = told(1, "-")
    assert again == {} and "confusion" in moca.analyse(run).analyses
    assert told(1, "+")[0] == told(2, "+")[0] == {EDITED: ["er+Mine"]}
