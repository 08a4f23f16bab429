"""What a classifier keeps: bounded in bytes, or nothing that could be looked at."""

import numpy as np
import pytest
import torch

import moca
from moca import ContinualClassifier, MocaError
from moca.classifier import ModelFolder
from moca.classifier.lesson import teach
from moca.settings import Run, validate
from tests.classifier.conftest import SIDE, bars, lesson

PIXELS = SIDE * SIDE


def bytes_of(classifier):
    """What the samples in memory take, without the spare row."""
    return sum(rows[:-1].nbytes for rows in classifier.learning_.memory.fields.values())


@pytest.mark.parametrize(
    ("written", "size"), [("50MB", 50_000_000), ("1.5 kB", 1500), ("2GiB", 2 * 1024**3), ("60", 60)]
)
def test_sizes_with_units(written, size):
    memory = validate(Run, {"memory": written}).memory
    assert (memory.size, memory.per) == (size, "total" if written == "60" else "bytes")
    assert validate(Run, {"memory": str(memory)}).memory == memory


@pytest.mark.parametrize("written", ["50QB", "10B", "many"])
def test_a_size_that_is_none_says_what_one_is(written):
    with pytest.raises(MocaError, match=r"a number of samples, such as 500, or what they may take, such as 50MB"):
        validate(Run, {"memory": written})


@pytest.mark.parametrize("learner", ["er_ace", "derpp", "xder"])
def test_never_more_bytes_than_allowed_and_not_a_sample_less(small, tmp_path, learner):
    budget = 6000
    model = small(learner=learner, perturb="none", memory=f"{budget / 1000}kB", epochs=1)
    for number, labels in enumerate(((0, 1), (2, 3, 4, 5), (6,)), 1):
        model.learn(*lesson(*labels))
        each = PIXELS + 8 + (0 if learner == "er_ace" else 4 * len(model.classes_))
        assert model.learning_.memory.size == budget // each
        assert budget - each < bytes_of(model) <= budget
        assert number == 1 or len(model.memory_contents()) > 2
    model.save(tmp_path / "kept")
    again = moca.load_model(tmp_path / "kept", device="cpu")
    for one in (model, again):
        one.forget(3).learn(*lesson(3, 7, seed=1))
        assert bytes_of(one) <= budget
    np.testing.assert_array_equal(again.decision_function(bars(1, 4)), model.decision_function(bars(1, 4)))


def test_samples_stay_by_chance_with_their_labels():
    memory = (
        moca.ContinualClassifier("derpp", "none", 40, "convnet:width=2", epochs=1, device="cpu")
        .learn(*lesson(0, 1, 2, count=10))
        .learning_.memory
    )
    before = {
        image.numpy().tobytes(): y.item() for image, y in zip(*map(memory.all().get, ("image", "y")), strict=True)
    }
    memory.shrink(12)
    after = [
        (image.numpy().tobytes(), y.item()) for image, y in zip(*map(memory.all().get, ("image", "y")), strict=True)
    ]
    assert len({image for image, _ in after}) == len(memory) == 12
    assert all(before[image] == y for image, y in after)
    assert len({y for _, y in after}) == 3
    assert memory.storing.size == 12


def test_too_few_bytes_for_one(small):
    with pytest.raises(MocaError, match=r"100 bytes holds no sample, which takes 152"):
        small(memory="0.1kB").learn(*lesson(0, 1))


@pytest.mark.parametrize("learner", ["pass", "proxy", "lwf", "finetune"])
def test_no_image_is_kept_in_any_version(folder, tmp_path, learner):
    model = ModelFolder(tmp_path / "model")
    options = {"learner": learner, "perturb": "none", "encoder": "convnet:width=2,features=8", "epochs": 1}
    teach(model, folder("jan", 0, 1), options=options, held_out=0, device="cpu")
    teach(model, folder("feb", 2, 3), held_out=0, tolerate=1, device="cpu")
    assert len(model.versions) == 2
    kept = [tensor for number in (1, 2) for tensor in tensors_of(torch.load(state_of(model, number)))]
    assert not [tensor for tensor in kept if tensor.shape[-2:] == (SIDE, SIDE) and len(tensor)]
    content = b"".join(file.read_bytes() for file in model.path.rglob("*") if file.is_file())
    for label in range(4):
        for image in bars(label, 20):
            assert image.tobytes() not in content
            assert image[3:6].repeat(3, 1).tobytes() not in content, "nor in colour, channels last"
    assert ContinualClassifier.load(model.path, device="cpu").memory_contents() == {}


def test_with_a_memory_they_are_there(folder, tmp_path):
    """So that the test above can fail."""
    model = ModelFolder(tmp_path / "model")
    options = {"perturb": "none", "encoder": "convnet:width=2,features=8", "epochs": 1}
    teach(model, folder("jan", 0, 1), options=options, held_out=0, device="cpu")
    assert bars(0, 20)[7].tobytes() in state_of(model, 1).read_bytes()


def state_of(model, number):
    return model.path / "versions" / str(number) / "state.pt"


def tensors_of(state):
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, dict | list):
        for part in state.values() if isinstance(state, dict) else state:
            yield from tensors_of(part)
