"""Our optimisers beside torch's own: the same bits, without torch.compile."""

import pickle

import pytest
import torch

from moca.engine import optimiser
from moca.engine.optimiser import uncompiled
from tests.engine.test_reproducible import assert_identical

OPTIONS = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"weight_decay": 0.01},
    "AdamW": {},
}


def steps(made, weights, count):
    for _ in range(count):
        made.zero_grad()
        (weights**3).sum().backward()
        made.step()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_same_bits_as_torchs_also_from_a_checkpoint(name):
    kinds, kept = (getattr(optimiser, name), getattr(torch.optim, name)), []
    assert kinds[0] is not kinds[1]
    for kind in kinds:
        weights = torch.linspace(-1, 1, 7).requires_grad_()
        made = kind([weights], torch.tensor(0.1), **OPTIONS[name])
        steps(made, weights, 3)
        again = kind([weights], torch.tensor(0.5), **OPTIONS[name])
        again.load_state_dict(made.state_dict())
        assert_identical(pickle.loads(pickle.dumps(again)).state_dict(), made.state_dict())
        steps(again, weights, 2)
        kept.append((weights.detach(), again.state_dict()))
    assert_identical(*kept)


@pytest.mark.parametrize(("saved", "here"), [(False, True), (True, False)])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_checkpoint_of_another_device_goes_on_in_the_way_of_this_one(name, saved, here):
    """What a GPU needs (fused) is not what a CPU kept with its state, and the reverse."""
    kind, weights, lr = getattr(optimiser, name), torch.linspace(-1, 1, 7).requires_grad_(), torch.tensor(0.1)
    made, other = (kind([weights], torch.tensor(0.1), fused=fused, **OPTIONS[name]) for fused in (saved, here))
    steps(made, weights, 2)
    optimiser.load_optimiser(other, made.state_dict(), lr)
    (group,) = other.param_groups
    assert group["fused"] is here
    assert group["lr"] is lr
    for key, value in made.state[weights].items():
        torch.testing.assert_close(other.state[weights][key], value)


def test_a_step_is_watched_and_asks_for_its_loss_as_torchs_does():
    weights, seen = torch.ones(2, requires_grad=True), []
    made = optimiser.SGD([weights], 0.5)
    made.register_step_post_hook(lambda *_: seen.append(weights.tolist()))

    def loss():
        value = weights.sum()
        value.backward()
        return value

    assert made.step(loss) == 2
    assert seen == [[0.5, 0.5]]
    assert torch.is_grad_enabled()


def test_methods_that_are_wrapped_in_another_way_stay():
    def guarded(method):
        def guard(*given):
            return method(*given)

        guard.__wrapped__ = method
        return guard

    class Other(torch.optim.SGD):
        state_dict = guarded(torch.optim.SGD.state_dict)

    ours = uncompiled(Other)
    assert ours.state_dict is Other.state_dict
    assert ours.zero_grad is not Other.zero_grad
