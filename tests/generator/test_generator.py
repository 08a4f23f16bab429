"""The generator of a data set: the shapes it makes, that it goes on where it was, and that it is kept."""

import signal

import pytest
import torch

from moca.errors import Interrupted, MocaError
from moca.generator import generator_of
from moca.generator.network import Critic, Encoder, Generator, within_reach
from moca.generator.store import place_of, wide_place
from moca.generator.training import Training


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 20, 33), (1, 5, 9)])
def test_images_of_any_shape(shape):
    generator, y = Generator(shape, 3), torch.tensor([0, 2])
    z = torch.randn(2, generator.plan.latents)
    made = generator(z, y)
    assert made.shape == (2, *shape)
    assert made.abs().max() <= 1
    assert [part.shape for part in Encoder(shape, 3)(made, y)] == [z.shape, z.shape]
    assert Critic(shape, 3)(made, y).shape == (2,)


def test_every_latent_number_and_the_class_decide():
    generator, y = Generator((1, 8, 8), 2), torch.tensor([0])
    z = torch.randn(1, generator.plan.latents, requires_grad=True)
    made = generator(z, y)
    assert (torch.autograd.grad(made.square().sum(), z)[0] != 0).all()
    assert not torch.equal(generator(z, 1 - y), made)


def test_latents_within_reach():
    z = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    torch.testing.assert_close(within_reach(z), torch.tensor([[0.6, 0.8], [0.3, 0.4]]) * torch.tensor([[2**0.5], [1]]))


@pytest.mark.parametrize("channels", [1, 3])  # the second with a critic
def test_training_goes_on_bit_for_bit(make_dataset, channels):
    data = make_dataset(channels=channels, side=4)

    def training():
        made = Training(data.train, 4, wanted=4, wide=channels > 1)
        made.batch = 3
        return made

    whole, first, second = training(), training(), training()
    for _ in range(4):
        whole.step()
    for _ in range(2):
        first.step()
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.step()
    for name, tensor in whole.average.state_dict().items():
        assert torch.equal(tensor, second.average.state_dict()[name]), name
    assert not torch.equal(whole.average.generator.end.weight, first.average.generator.end.weight)


def test_it_learns_to_rebuild(make_dataset):
    training = Training(make_dataset(side=8).train, 4, wanted=40)

    def error():
        x = training.images.float() / 127.5 - 1
        with torch.no_grad():
            z, _ = training.pair.guess(x, training.labels)
            return (training.pair.generator(z, training.labels) - x).square().mean().item()

    before, training.batch = error(), 16
    for _ in range(40):
        training.step()
    assert error() < 0.8 * before


def test_stopped_training_is_kept_and_goes_on(make_dataset, tmp_path, monkeypatch):
    data, step = make_dataset(side=4), Training.step
    whole = generator_of(data, steps=3, data_dir=tmp_path / "whole", device="cpu")

    def stopped(self):
        step(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Training, "step", stopped)
    with pytest.raises(Interrupted, match="after 1 of 3 steps"):
        generator_of(data, steps=3, data_dir=tmp_path, device="cpu")
    monkeypatch.setattr(Training, "step", step)
    again = generator_of(data, data_dir=tmp_path, device="cpu")  # as many as were wanted
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
    monkeypatch.setattr(Training, "step", None)
    kept = generator_of(data, data_dir=tmp_path, device="cpu")
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), again.parameters(), strict=True))


def test_other_images_have_another_generator_and_damage_is_told(make_dataset, tmp_path):
    data = make_dataset(side=4)
    place = place_of(data, tmp_path)
    assert place != place_of(make_dataset(side=5), tmp_path)
    place.parent.mkdir()
    place.write_bytes(b"half")
    with pytest.raises(MocaError, match=r"is damaged; remove it"):
        generator_of(data, data_dir=tmp_path, device="cpu")


def test_a_wide_one_is_used_on_a_cpu_once_it_is_finished(make_dataset, tmp_path):
    data = make_dataset(channels=3, side=4)
    training = Training(data.train, 4, wanted=2, wide=True)
    training.done = 1
    wide = wide_place(place_of(data, tmp_path))
    wide.parent.mkdir()
    used = {}
    for wanted in (2, 1):
        torch.save({"wanted": wanted, "state": training.state_dict()}, wide)
        used[wanted] = generator_of(data, steps=1, data_dir=tmp_path, device="cpu").generator.end.weight
    assert len(used[2][0]) < len(used[1][0])
    assert torch.equal(used[1], training.average.generator.end.weight)
