"""The twin of the official code computes what our own learner does, by other means."""

import copy
import math

import numpy as np
import pytest
import torch
from PIL import Image

from moca.batch import Batch
from moca.bench.official import Buffer, NewSamples, OfficialTwin, PerSample, has_twin, to_image, to_tensor
from moca.bench.workload import CIFAR, in_second_task, run_settings
from moca.data import Transform

CPU = torch.device("cpu")


@pytest.fixture
def make_twin(make_settings, stream):
    return lambda method, **changes: OfficialTwin(
        run_settings(make_settings(), method, "eager").model_copy(update=changes), stream, CPU
    )


@pytest.mark.parametrize(
    ("label", "known"),
    [
        ("er", True),
        ("er+gaussian:lambda=1.5", True),
        ("er+wap:step_size=50", True),
        ("er+wap:steps=2", False),
        ("er+wap:radius=0.1", False),
        ("er+wap:relative=false", False),
        ("er+gaussian:unit=false", False),
        ("er+gaussian:angle_cap=30", False),
        ("er+vt", False),
        ("derpp", False),
    ],
)
def test_the_twin_is_of_the_same_method_or_not_there(label, known):
    assert has_twin(label) == known


@pytest.fixture
def batches():
    """New samples of the second task and replayed ones of the first."""
    generator = torch.Generator().manual_seed(1)
    x, replay_x = torch.randn(2, 4, 3, 32, 32, generator=generator)
    return x, torch.tensor([20, 25, 30, 39]), replay_x, torch.tensor([0, 5, 19, 7])


def ours(make_settings, stream, method, x, y, replay_x, replay_y):
    learning = in_second_task(run_settings(make_settings(), method, "eager"), stream).learning
    learning.model.train()
    replay = Batch(x=replay_x, y=replay_y, old=learning.learner.is_old(replay_y))
    new, replays = learning.passes(Batch(x=x, y=y), [replay])
    return learning, sum(learning.learner.losses(new, *replays).values())


@pytest.mark.parametrize("method", ["er", "er+wap"])
def test_the_loss_is_that_of_our_learner(make_twin, make_settings, stream, batches, method):
    twin = make_twin(method)
    twin.model.train()
    learning, loss = ours(make_settings, stream, method, *batches)
    assert twin.loss(*batches).item() == pytest.approx(loss.item(), abs=1e-5)
    twin.loss(*batches).backward()
    loss.backward()
    theirs = dict(twin.model.named_parameters())
    for name, parameter in learning.model.named_parameters():
        torch.testing.assert_close(theirs[name].grad, parameter.grad, atol=1e-4, rtol=1e-3)


def test_gaussian_moves_old_samples_by_unit_noise_times_lambda(make_twin, batches):
    _, y, replay_x, _ = batches
    replay_y = torch.tensor([0, 25, 19, 30])
    twin = make_twin("er+gaussian:lambda=1.5")
    h = twin.model.encoder(replay_x).detach()
    torch.manual_seed(3)
    f = twin._moved(h, replay_x, replay_y, y)
    u = h / h.norm(dim=1, keepdim=True)
    torch.manual_seed(3)
    for row, n in enumerate(torch.randn(h.shape)):
        expected = u[row] + 1.5 * n / n.norm() if replay_y[row] < 20 else u[row]
        torch.testing.assert_close(f[row], expected)


def test_wap_leaves_the_network_alone_and_moves_its_copy(make_twin, batches):
    _, y, replay_x, replay_y = batches
    twin = make_twin("er+wap")
    before = copy.deepcopy(twin.model.state_dict())
    twin._adversarial(replay_x, y, replay_y < 20)
    assert all(torch.equal(before[k], v) for k, v in twin.model.state_dict().items())
    assert all(p.grad is None for p in twin.model.parameters())
    moved = {k: not torch.equal(before[k], v) for k, v in twin.proxy.state_dict().items()}
    assert moved["encoder.stem.0.weight"]
    assert moved["head.weight"]
    twin._adversarial(replay_x, y, replay_y > 99)
    assert all(torch.equal(p, q) for p, q in zip(twin.model.parameters(), twin.proxy.parameters(), strict=True)), (
        "no step where no sample is old"
    )


@pytest.mark.parametrize(("method", "passes"), [("er", "nbbb"), ("er+gaussian", "nbbn"), ("er+wap", "nbb")])
def test_the_passes_are_the_official_ones(make_twin, batches, method, passes):
    twin, seen = make_twin(method), []
    twin.model.encoder.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    twin.loss(*batches)
    role = {id(batches[0]): "n", id(batches[2]): "b"}
    assert "".join(role[id(x)] for x in seen) == passes


def test_a_step_trains_and_offers_the_new_samples(make_twin):
    twin = make_twin("er")
    before, seen = twin.model.head.weight.clone(), twin.buffer.seen
    loss = next(twin.steps())
    assert math.isfinite(loss)
    assert not torch.equal(before, twin.model.head.weight)
    assert twin.buffer.seen == seen + 4


def test_without_augmentation_a_sample_is_seen_as_in_our_transform(stream):
    images = stream.train.images[:3]
    expected = Transform.plain(CIFAR, CPU)(images)
    plain = PerSample(CIFAR, augment=False)
    samples = NewSamples(images.permute(0, 2, 3, 1).numpy(), [7, 8, 9], plain)
    for number, (x, label, raw) in enumerate(samples[i] for i in range(3)):
        torch.testing.assert_close(x, expected[number], atol=1e-5, rtol=1e-5)
        assert label == 7 + number
        torch.testing.assert_close(raw, images[number] / 255)


def test_bytes_survive_the_way_to_the_buffer_and_back():
    pixels = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    assert np.array_equal(np.array(to_image(to_tensor(Image.fromarray(pixels)))), pixels)


def test_augmentation_crops_and_flips_and_nothing_else():
    """Every outcome is the padded image, shifted by at most 4 pixels each way and perhaps mirrored."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(1, 256, (3, 8, 8), dtype=torch.uint8, generator=generator)
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (CIFAR.mean, CIFAR.std))
    padded = torch.nn.functional.pad(image, (4, 4, 4, 4))
    allowed = {}
    for top in range(9):
        for left in range(9):
            crop = padded[:, top : top + 8, left : left + 8]
            allowed |= {crop.numpy().tobytes(): (top, left, 0), crop.flip(2).numpy().tobytes(): (top, left, 1)}
    torch.manual_seed(0)
    transform, seen = PerSample(CIFAR), []
    for _ in range(300):
        x = transform(Image.fromarray(image.permute(1, 2, 0).numpy()))
        pixels = ((x * std + mean) * 255).round().byte()
        seen.append(allowed[pixels.numpy().tobytes()])
    tops, lefts, flips = zip(*seen, strict=True)
    assert set(tops) == set(lefts) == set(range(9))
    assert 100 < sum(flips) < 200


class TestBuffer:
    def make(self, size, seed=0):
        return Buffer(size, PerSample(CIFAR, augment=False), CPU, seed)

    def test_the_first_samples_fill_the_slots_in_order(self):
        buffer = self.make(4)
        buffer.add(torch.zeros(3, 1, 1, 1), torch.arange(3))
        assert len(buffer) == buffer.seen == 3
        assert buffer.labels.tolist() == [0, 1, 2, 0]

    def test_it_never_holds_more_than_its_size_and_counts_everything(self):
        buffer = self.make(4)
        for start in range(0, 60, 6):
            buffer.add(torch.zeros(6, 1, 1, 1), torch.arange(start, start + 6))
        assert (len(buffer), buffer.seen, len(buffer.labels)) == (4, 60, 4)
        assert len(set(buffer.labels.tolist())) == 4, "each sample was offered once, so it is kept at most once"

    def test_every_sample_is_kept_equally_often(self):
        """Algorithm R: after 12 offers each sample is in one of 4 slots with probability 1/3."""
        kept, trials = torch.zeros(12), 1500
        for seed in range(trials):
            buffer = self.make(4, seed)
            buffer.add(torch.zeros(12, 1, 1, 1), torch.arange(12))
            kept[buffer.labels] += 1
        deviation = math.sqrt(trials * (1 / 3) * (2 / 3))
        assert float((kept - trials / 3).abs().max()) < 4 * deviation

    def test_images_and_labels_stay_together_and_none_is_drawn_twice(self, stream):
        buffer = self.make(50)
        buffer.add(stream.train.images[:200] / 255, torch.arange(200))
        x, y = buffer.draw(32)
        assert len(set(y.tolist())) == 32
        torch.testing.assert_close(
            x, Transform.plain(CIFAR, CPU)(stream.train.images[y]).contiguous(), atol=1e-5, rtol=1e-5
        )
