"""Rules of which BatchNorm statistics the test sees: shares in closed form, estimates against torch's own layers, and
runs that do not notice."""

import copy

import pytest
import torch
from benchmarks.batch_norm_rules import regrets
from torch import nn

import moca
from moca import LinearHead, MocaError, Model
from moca.engine.evaluate import evaluate
from moca.engine.folder import RunFolder
from moca.measures.analysis import read
from moca.measures.batch_norm import (
    RULES,
    Estimates,
    Moments,
    Rule,
    averaged,
    holding,
    layers_moved,
    mixed,
    share_of_replay,
)
from moca.measures.record.rules import final_accuracies
from moca.settings import Run, validate
from tests.engine.helpers import begin, finish
from tests.engine.test_reproducible import assert_identical
from tests.engine.test_run import interrupt_when
from tests.models.batch_norm.test_foreign import OfItsOwn, ThenReLU

SMALL = {
    "tasks": 2,
    "epochs": 1,
    "batch": 6,
    "memory": 10,
    "lr": 0.2,
    "model": "convnet:width=2,features=5",
    "device": "cpu",
    "threads": 1,
}


@pytest.fixture
def settings(make_dataset):
    data = make_dataset((8, 8, 9, 8), crop_padding=1, flip=True)
    return lambda **others: {"data": data} | SMALL | others


@pytest.fixture(autouse=True)
def few_batches(monkeypatch):
    monkeypatch.setattr("moca.measures.record.rules._BATCHES", 3)


def recorded(running):
    """What was found in each task."""
    (rules,) = running.recorder.recordings
    return rules.tasks


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ("n", 0),
        ("b", 1),
        ("nb", 1 / 1.9),
        ("nbb", 1.9 / 2.71),
        ("nbbb", 2.71 / 3.439),
        ("nbbn", 1.71 / 3.439),
        ("nnbnb", 1.81 / 4.0951),
    ],
)
def test_shares_in_closed_form(passes, expected):
    assert share_of_replay(passes) == pytest.approx(expected, abs=1e-12)
    assert Rule.of(passes).share(0.1, old=0.7) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("momentum", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("passes", ["nb", "bn", "nbbn", "nnbnb", "bbn"])
def test_shares_against_an_average_that_moves(passes, momentum):
    held = 0.3
    for letter in passes * 1000:
        held = (1 - momentum) * held + momentum * (letter == "b")
    assert share_of_replay(passes, momentum) == pytest.approx(held, abs=1e-6)


def test_without_a_momentum_every_pass_counts_the_same():
    assert share_of_replay("nbbn", None) == 0.5
    assert share_of_replay("nbb", None) == pytest.approx(2 / 3)


def test_shares_that_are_no_passes():
    assert Rule.of("classes").share(0.1, old=0.8) == Rule.of("classes+spread").share(0.1, old=0.8) == 0.8
    assert Rule.of("half+spread").share(0.1, old=0.8) == 0.5
    assert [Rule.of(name).spread for name in ("nb", "nb+spread", "memory")] == [False, True, False]


def test_a_mixture_has_the_moments_of_both_samples_together():
    new, replayed = torch.randn(30, 4).double(), 2 * torch.randn(90, 4).double() + 1
    parts = [Moments(x.mean(0), x.var(0, correction=0)) for x in (new, replayed)]
    both = torch.cat([new, replayed])
    mean, var = mixed(*parts, share=0.75, spread=True)
    torch.testing.assert_close(mean, both.mean(0))
    torch.testing.assert_close(var, both.var(0, correction=0))
    torch.testing.assert_close(mixed(*parts, share=0.75, spread=False).var, 0.25 * parts[0].var + 0.75 * parts[1].var)


class Twice(nn.Module):
    """One layer, used twice in a pass."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.norm(x) + x**2)


class Frozen(nn.BatchNorm2d):
    """A layer that does not train."""

    def train(self, mode=True):
        return super().train(False)


def encoder(*layers):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


ENCODERS = {
    "2d": lambda: encoder(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 2), nn.BatchNorm2d(5)),
    "1d": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.BatchNorm1d(5, momentum=None)),
    "subclass": lambda: encoder(ThenReLU(3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
    "of its own": lambda: encoder(OfItsOwn(3), nn.BatchNorm2d(3, affine=False)),
    "one layer twice": lambda: encoder(Twice()),
    "frozen": lambda: encoder(Frozen(3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
    "untracked": lambda: encoder(nn.BatchNorm2d(3, track_running_stats=False), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_estimates_are_those_of_torch_averaging_over_the_batches(kind):
    torch.manual_seed(0)
    plain = ENCODERS[kind]().double()
    model = Model(copy.deepcopy(plain), LinearHead(5, 2).double())
    batches = [3 * torch.randn(size, 3, 4, 4).double() + size for size in (6, 6, 4)]
    model.train().encode(torch.randn(8, 3, 4, 4).double())  # it has seen others before
    before = copy.deepcopy(model.state_dict())
    found = averaged(model, iter(batches))
    assert_identical(model.state_dict(), before)
    plain.train()
    own = {
        f"encoder.{name}": layer
        for name, layer in plain.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
    }
    for layer in own.values():
        layer.momentum = None
    for x in batches:
        plain(x)
    moved = {
        name: layer
        for name, layer in own.items()
        if layer.num_batches_tracked is not None and layer.num_batches_tracked > 0
    }
    assert found.keys() == moved.keys() == layers_moved(model.train()).keys()
    for name, layer in moved.items():
        torch.testing.assert_close(found[name].mean, layer.running_mean)
        torch.testing.assert_close(found[name].var, layer.running_var)


def test_statistics_are_held_in_the_same_tensors_and_put_back():
    model = Model(ENCODERS["2d"](), LinearHead(5, 2))
    places = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    before = copy.deepcopy(model.state_dict())
    held = {name: Moments(torch.randn(4 + i), torch.rand(4 + i)) for i, name in enumerate(layers_moved(model))}
    with pytest.raises(KeyError), holding(model, held):
        assert model.encoder[4].running_var.equal(held["encoder.4"].var)
        assert model.encoder[1].running_mean.equal(held["encoder.1"].mean)
        raise KeyError
    assert_identical(model.state_dict(), before)
    assert places == {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}


def dropping(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6), nn.Dropout(0.3))


METHODS = {
    "er": {},
    "er by official passes": {"perturb": "gaussian", "bn_passes": "official", "short_batch": "skip"},
    "er in bfloat16": {"precision": "bf16"},
    "er in one batch": {"learner": "er:passes=concatenated"},
    "er with dropout": {"model": dropping},
    "er of unknown classes": {"classes": "unknown"},
    "derpp": {"learner": "derpp", "perturb": "wap"},
    "er_ace": {"learner": "er_ace", "perturb": "vt"},
    "mir": {"learner": "mir:candidates=20", "replay_batch": 4},
    "icarl": {"learner": "icarl"},
    "manifold_mixup": {"learner": "manifold_mixup"},
    "the student of a teacher": {"learner": "teacher:tested=student"},
    "gem": {"learner": "gem"},
    "finetune": {"learner": "finetune"},
    "pass": {"learner": "pass"},
    "joint": {"learner": "joint"},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_run_does_not_notice(settings, tmp_path, method):
    def run(name, **others):
        torch.manual_seed(3)
        running = begin(settings(**METHODS[method], **others), tmp_path / name)
        return running, finish(running), running.trainer.state_dict(), torch.get_rng_state()

    _, plain, *others = run("plain")
    running, watched, *noticed = run("watched", record="rules")
    assert (plain.folder / "steps.jsonl").read_text() == (watched.folder / "steps.jsonl").read_text()
    assert plain.accuracy_matrix == watched.accuracy_matrix
    assert_identical(noticed, others)
    tasks = recorded(running)
    for task in tasks:
        own = watched.accuracy_matrix[task["learned"]]
        assert task["class_il"]["own"] == (own if method == "joint" else own[: task["learned"]])
        memory = method not in ("finetune", "pass", "joint")
        assert tuple(task["class_il"]) == (("own", *RULES) if memory else ("own", "n"))
        if task["learned"] == 1:
            assert all(
                task["class_il"][rule] == task["class_il"]["n"] for rule in task["class_il"] if set(rule) <= {*"nb"}
            )
    assert [task["learned"] for task in tasks] == ([1] if method == "joint" else [1, 2])
    final = final_accuracies(read(RunFolder(watched.folder)))
    assert final["own"] == pytest.approx(100 * watched.final_accuracy, abs=1e-3)
    assert final == pytest.approx({rule: 100 * value for rule, value in tasks[-1]["accuracy"].items()}, abs=1e-3)


@pytest.mark.parametrize("form", ["mean", "cls", "mkd"])
def test_a_tested_teacher_is_refused_before_any_run_starts(form):
    """All rules would give one number, that of the teacher as it is; of mkd half of what they should."""
    with pytest.raises(MocaError, match="leave rules out, or test the student: teacher:tested=student"):
        validate(Run, {"learner": f"teacher:form={form}", "record": "rules"})


def test_what_is_tested_is_what_was_mixed(settings, make_dataset, tmp_path):
    """One batch holds the whole task and one replay the whole memory, so that chance has no say."""
    data = make_dataset((8, 8, 9, 8), test_counts=(100,) * 4)
    exact = {"data": data, "batch": 50, "augment": False, "epochs": 8, "memory": 12}
    running = begin(settings(**exact, record="rules"), tmp_path / "run")
    finish(running)
    learning, stream = running.trainer.learning, running.stream

    def moments(images):
        twin = copy.deepcopy(learning.model.encoder).train()
        for layer in twin.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.momentum = 1.0
        twin(learning.learner.view(images))
        return {f"encoder.{name}": values for name, values in twin.state_dict().items() if "running" in name}

    stored = learning.memory.all()["image"]
    new, replayed = moments(stream.train.images[stream[1].train]), moments(stored)
    # 12 of 33 samples are stored, of 4 classes of which 2 are old.
    shares = {"n": 0, "b": 1, "memory": 1, "nb": 1 / 1.9, "nbbn": 1.71 / 3.439, "classes": 0.5}
    told = recorded(running)[-1]["class_il"]
    for rule, share in shares.items():
        model = copy.deepcopy(learning.model)
        mean_and_var = {name: (1 - share) * new[name] + share * replayed[name] for name in new}
        model.load_state_dict(model.state_dict() | mean_and_var)
        assert told[rule] == evaluate(model, model, stream).class_il, rule
    assert told["n"] != told["nb"] != told["b"], "otherwise nothing was compared"


def test_replayed_batches_are_drawn_and_augmented_with_numbers_of_their_own(settings, tmp_path):
    running = begin(settings(memory=20), tmp_path / "run")
    finish(running)
    running.trainer.schedule.task = 1
    before = running.trainer.state_dict()
    first, again = (list(Estimates(running.trainer, 4)._replays()) for _ in range(2))
    assert_identical(running.trainer.state_dict(), before)
    for (new, replayed), (new_again, replayed_again) in zip(first, again, strict=True):
        assert new.x.equal(new_again.x)
        assert replayed.equal(replayed_again)
        assert set(new.y.tolist()) <= {2, 3}
        assert len(new.y) == len(new.image.flatten(1).unique(dim=0)) == len(replayed) == 6
    assert len({x.sum().item() for pair in first for x in (pair[0].x, pair[1])}) == 8


def test_an_interrupted_run_goes_on_and_has_every_task_once(settings, tmp_path):
    whole = finish(begin(settings(record="rules"), tmp_path / "whole"))
    half = finish(begin(settings(record="rules"), tmp_path / "half", interrupt_when(4)))
    assert half.status == "interrupted"
    resumed = moca.resume(half.folder, data=settings()["data"])
    assert read(RunFolder(resumed.folder)) == read(RunFolder(whole.folder))


def test_regret_is_the_mean_loss_against_the_best_rule_of_each_method():
    found = regrets({"er": {"own": 0.3, "n": 0.2, "b": 0.5}, "finetune": {"own": 0.1, "n": 0.4}})
    assert found == pytest.approx({"own": (0.2 + 0.3) / 2, "n": (0.3 + 0) / 2})


def test_a_model_without_batch_norm(settings, tmp_path):
    result = moca.run(**settings(model="mlp:width=4,features=3"), out=tmp_path / "a", record="rules")
    assert result.status == "finished"
    assert final_accuracies(read(RunFolder(result.folder))) == {}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_recorded_runs_do_not_notice(settings, tmp_path):
    captured = {"device": "cuda", "execution": "captured", "learner": "derpp", "epochs": 4, "tasks": 4}
    done = {}
    for name, record in {"plain": (), "watched": "rules"}.items():
        running = begin(settings(**captured, record=record), tmp_path / name)
        done[name] = finish(running).accuracy_matrix, running.trainer.state_dict()
    assert_identical(done["watched"], done["plain"])
    assert [task["learned"] for task in recorded(running)] == [1, 2, 3, 4]
