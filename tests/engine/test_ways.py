"""One step, many ways to run it: each agrees with the eager step in float32 on the CPU.

Losses within the tolerance of the arithmetic; what is drawn and what is kept exactly.
"""

import shutil
from functools import partial

import pytest
import torch
from torch.utils.weak import WeakTensorKeyDictionary

from moca.parts import LEARNERS
from tests.engine.methods import EVERY, MOST
from tests.engine.test_reproducible import assert_identical, through_a_file

METHODS = {name: method for name, method in EVERY.items() if name != "joint"} | {
    "wap twice": {"perturb": "wap:steps=2,labels=random"},
    "fixed angle": {"perturb": "gaussian:fixed_angle=30"},
    "angle cap": {"perturb": "doa_old:angle_cap=20"},
    "official passes": {"perturb": "doa_new", "bn_passes": "official"},
    "icarl online": {"learner": "icarl:form=online"},
    "offered once": {"offer": "once"},
    "adjusted": {"learner": "er:adjust=auto"},
    "concatenated": {
        "learner": "er:passes=concatenated",
        "optimiser": "sgd:momentum=0.9,weight_decay=1e-4",
        "lr": 0.001,
    },
    "adam": {"optimiser": "adamw", "schedule": "cosine", "lr": 1e-4},
}
METHODS |= {name: method | {"lr": 0.001} for name, method in METHODS.items() if method.get("learner") == "lucir"}
"""With four terms, one of weight 5, rounding grows faster: by the tenth step at the usual rate to 0.016."""
SMALL = {"model": "convnet:width=4,features=8"}
"""Quick on a CPU, and quick to compile."""
STEPS = 5
"""In each task; after more, rounding has grown to something else in any arithmetic."""

REDUCED = 1e-2
"""For bfloat16 and TensorFloat-32. Seen after ten steps: up to 0.006. Leaving out the Gaussian moves a loss by 0.03."""

on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
compiles = pytest.mark.skipif(not shutil.which("g++"), reason="on the CPU torch.compile needs a C++ compiler")


@pytest.fixture
def trainer(make_trainer):
    """A narrow ResNet-18 on tasks of 37 images, the last batch of each epoch a short one."""

    def make(method, tasks=2, **way):
        settings = {
            "model": "resnet18:width=8",
            "batch": 8,
            "memory": 20,
            "lr": 0.005,
            "epochs": 3,
            "precision": "fp32",
        }
        images = {"channels": 3, "side": 16, "crop_padding": 1, "flip": True}
        learner = LEARNERS.find(METHODS[method].get("learner", "er").partition(":")[0])
        if way.get("execution") == "captured" and not learner.static:
            pytest.skip("its step cannot be captured")
        return make_trainer((19, 18, 18, 19, 18, 19)[: 2 * tasks], protocol=images, tasks=tasks,
                            **(settings | METHODS[method] | way))  # fmt: skip

    return make


def nothing_to_choose(method):
    """MIR chooses by differences that a reduced precision may not tell apart: without a choice the rest must agree."""
    return {"learner": "mir:candidates=8"} if METHODS[method].get("learner") == "mir" else {}


def first_steps(trainer):
    """Losses of the first steps of both tasks, and the memory after each; the second task has old classes."""
    losses, kept = [], []
    for task in range(2):
        steps = trainer.steps()
        for _ in range(STEPS):
            losses.append(sum(next(steps).losses.values()).item())
            if trainer.learning.memory is not None:
                kept.append(
                    {
                        name: field[:-1].cpu().clone()
                        for name, field in trainer.learning.memory.fields.items()
                        if name != "logits"
                    }
                )
        trainer.schedule.epoch = trainer.schedule.batch = 0
        if task == 0:
            if trainer.learning.learner.store is not None or trainer.learning.memory is None:
                trainer.end_task()  # exemplars chosen in another precision may be others
            trainer.next_task()
    return torch.tensor(losses), kept


def random_counts(trainer):
    """How many random numbers each purpose has taken."""
    learner = trainer.learning.learner
    counts = [part.random.count.item() for part in (trainer.learning.transform, learner, learner.perturbation)]
    if trainer.learning.memory is not None:
        policies = (trainer.learning.memory.storing, trainer.learning.memory.drawing)
        counts += [policy.random.count.item() for policy in policies if policy is not None]
    return counts


def assert_agrees(ours, reference, rtol):
    losses, kept = first_steps(ours)
    expected, expected_kept = first_steps(reference)
    torch.testing.assert_close(losses, expected, rtol=rtol, atol=rtol)
    assert_identical(kept, expected_kept)
    assert random_counts(ours) == random_counts(reference)


@pytest.mark.parametrize("method", ["er", *(name for name in METHODS if name in MOST or name not in EVERY)])
def test_bfloat16_on_the_cpu(trainer, method):
    way = nothing_to_choose(method) | ({} if method in ("er", "er+wap") else SMALL)
    assert_agrees(trainer(method, precision="bf16", **way), trainer(method, **way), REDUCED)


def test_the_tolerance_of_reduced_precision_tells_a_perturbation_from_none(trainer):
    with pytest.raises(AssertionError, match="not close"):
        assert_agrees(trainer("er+gaussian", precision="bf16", **SMALL), trainer("er", **SMALL), REDUCED)


@compiles
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns about itself
def test_compiled_on_the_cpu(trainer):
    """To machine code: one layer, as each takes seconds."""
    layer = {"model": "mlp:width=4,depth=1,features=8"}
    assert_agrees(trainer("er", execution="compiled", **layer), trainer("er", **layer), rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_what_is_compiled_computes_the_same(trainer, monkeypatch):
    """With BatchNorm, whose statistics move: torch's graphs of the encoder and its gradient, run as they are. In the
    first task nothing is perturbed: steps of er are among those of er+wap."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    ours, plain = trainer("er+wap", execution="compiled", **SMALL), trainer("er+wap", **SMALL)
    assert_agrees(ours, plain, rtol=1e-4)
    torch.testing.assert_close(ours.learning.model.state_dict(), plain.learning.model.state_dict())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("execution", "precision", "rtol"),
    [
        pytest.param("eager", "fp32", 1e-3, marks=on_gpu),
        pytest.param("captured", "fp32", 1e-3, marks=on_gpu),
        pytest.param("captured", "tf32", REDUCED, marks=on_gpu),
        pytest.param("captured", "bf16", REDUCED, marks=on_gpu),
    ],
)
def test_on_a_gpu(trainer, method, execution, precision, rtol):
    way = nothing_to_choose(method) if rtol == REDUCED else {}
    ours = trainer(method, device="cuda", execution=execution, precision=precision, **way)
    assert_agrees(ours, trainer(method, **way), rtol)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["er", "er+wap"])
def test_compiled_on_a_gpu(trainer, method):
    # Fused sums are rounded otherwise, and WAP's step of ten times the rate makes more of it.
    assert_agrees(trainer(method, device="cuda", execution="compiled"), trainer(method), rtol=REDUCED)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", METHODS)
def test_captured_equals_eager_bit_by_bit(trainer, train, method, precision):
    """To the end of the run, over short batches and the borders between tasks, of which recordings may outlast one."""
    histories, states = [], []
    for execution in ("eager", "captured"):
        run = trainer(method, tasks=3, device="cuda", execution=execution, precision=precision)
        histories.append(train(run))
        states.append(run.learning.model.state_dict())
    assert histories[0] == histories[1]
    assert_identical(dict(states[0]), dict(states[1]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", METHODS)
def test_a_captured_run_goes_on_exactly_where_it_stopped(trainer, train, method):
    way = {"device": "cuda", "execution": "captured", "precision": "bf16"}
    whole, states = trainer(method, **way), []
    history = train(whole, lambda t: states.append(through_a_file(t.state_dict())))
    for done in (2, len(history) // 2 + 3):
        resumed = trainer(method, **way)
        resumed.load_state_dict(states[done - 1])
        assert train(resumed) == history[done:]
        assert_identical(dict(resumed.learning.model.state_dict()), dict(whole.learning.model.state_dict()))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("execution", ["eager", "captured"])
def test_a_set_too_large_for_the_device_is_streamed_with_the_same_numbers(trainer, train, monkeypatch, execution):
    way = {"device": "cuda", "execution": execution}
    expected = train(trainer("er+vt", **way))
    monkeypatch.setattr("moca.engine.resident._SHARE", 0.0)
    monkeypatch.setattr("moca.engine.resident._copies", WeakTensorKeyDictionary())
    streamed = trainer("er+vt", **way)
    assert not streamed.feed.resident
    assert streamed.feed.images.device.type == "cpu"
    assert train(streamed) == expected
