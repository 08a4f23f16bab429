"""How a generator learns: as the half of a variational autoencoder that makes images, and of photographs, which that
alone would blur, against a critic as well.

The autoencoder's error has a spread of its own, the best one for each batch, so that nothing has to be weighed against
the prior (Rybkin et al., ICML 2021, arXiv 2006.13202). The critic learns by the hinge loss, and counts as much as the
error does where the image is made (Esser et al., CVPR 2021, arXiv 2012.09841).
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from moca.data import Split
from moca.engine.device import has_bfloat16
from moca.engine.numerics import Numerics
from moca.generator.network import Critic, Generator, Guess, Shape
from moca.random import Random, derive

_RATE, _CRITIC_RATE = 5e-4, 2e-4
_AVERAGE = 0.998
"""Memory of the average of the weights over the steps."""
_ALONE = 0.1
"""Share of the steps that the autoencoder has made before it hears the critic."""
_MOST = 10.0
"""What the critic's word is multiplied by at most."""


class Pair(nn.Module):
    """The generator, and the network that guesses a latent vector for an image."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.generator, self.guess = Generator(shape, classes), Guess(shape, classes)


def steps_of(shape: Shape) -> int:
    """Steps after which pictures are good, by default."""
    return 15_000 if shape[0] > 1 else 2000


class Training:
    """A generator at work on the images of a data set, up to `wanted` steps. Between any two of them `state_dict` holds
    all that is needed to go on."""

    def __init__(self, images: Split, classes: int, wanted: int, device: torch.device) -> None:
        channels, height, width = images.images.shape[1:]
        shape = (channels, height, width)
        self.device, self.wanted, self.batch = device, wanted, 64 if channels == 1 else 256
        self.images, self.labels = images.images.to(device), images.labels.to(device)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive(0, "generator"))
            self.pair = Pair(shape, classes).to(device)
            self.critic = Critic(shape, classes).to(device) if channels > 1 else None
        self.average = deepcopy(self.pair).requires_grad_(False)
        """The pair with its weights averaged over the steps: what is used in the end."""
        self.optimisers = [_adam(self.pair, _RATE, 0.9)]
        if self.critic is not None:
            self.optimisers.append(_adam(self.critic, _CRITIC_RATE, 0.0))
        self.networks = [network for network in (self.average, self.pair, self.critic) if network is not None]
        for network in self.networks:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.random = Random(0, "generator", device)
        self.done = 0
        self._numerics = Numerics(None, tf32=True if device.type == "cuda" else None)
        self._bf16 = has_bfloat16(device)

    def step(self) -> None:
        """One step of the autoencoder and one of the critic."""
        with self._numerics():
            x, y = self._drawn()
            made = self._rebuild(x, y)
            if self.critic is not None:
                self._judge(self.critic, x, made, y)
            self._follow()
        self.done += 1

    def _drawn(self) -> tuple[Tensor, Tensor]:
        """Images of the data set, values from -1 to 1, colour ones mirrored half of the time."""
        index = self.random.below(torch.full((self.batch,), len(self.labels), device=self.device))
        x = self.images[index].float() / 127.5 - 1
        if x.shape[1] > 1:
            x = torch.where(self.random.uniform(self.batch, 1, 1, 1) < 0.5, x.flip(3), x)
        return x.contiguous(memory_format=torch.channels_last), self.labels[index]

    def _rebuild(self, x: Tensor, y: Tensor) -> Tensor:
        """The autoencoder's step; what it made of the images."""
        with self._precision():
            mean, spread = (part.float() for part in self.pair.guess(x, y))
            z = mean + (spread / 2).exp() * self.random.normal(*mean.shape)
            made: Tensor = self.pair.generator(z, y).float()
        error = _bound(x, made, mean, spread)
        if self.critic is not None and self.done > _ALONE * self.wanted:
            self.critic.requires_grad_(False)
            doubt = -self._scores(self.critic, made, y).mean()
            self.critic.requires_grad_(True)
            last = self.pair.generator.end.weight
            pulls = [torch.autograd.grad(term, last, retain_graph=True)[0].norm() for term in (error, doubt)]
            error = error + (pulls[0] / (pulls[1] + 1e-6)).clamp(max=_MOST).detach() * doubt
        self._down(error, 0)
        return made.detach()

    def _judge(self, critic: Critic, x: Tensor, made: Tensor, y: Tensor) -> None:
        """The critic's step."""
        real, rebuilt = self._scores(critic, torch.cat([x, made]), torch.cat([y, y])).chunk(2)
        self._down(F.relu(1 - real).mean() + F.relu(1 + rebuilt).mean(), 1)

    def _scores(self, critic: Critic, x: Tensor, y: Tensor) -> Tensor:
        with self._precision(), parametrize.cached():
            scores: Tensor = critic(x, y)
        return scores.float()

    def _down(self, loss: Tensor, which: int) -> None:
        self.optimisers[which].zero_grad()
        loss.backward()
        self.optimisers[which].step()

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16)

    @torch.no_grad()
    def _follow(self) -> None:
        """The average moves: faster at the beginning, so that it forgets what the weights were there."""
        towards = 1 - min(_AVERAGE, (1 + self.done) / (10 + self.done))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.pair.parameters()), towards)

    def state_dict(self) -> dict[str, Any]:
        """All that changes."""
        return {
            "done": self.done,
            "networks": [network.state_dict() for network in self.networks],
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "random": self.random.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.done = state["done"]
        self.random.load_state_dict(state["random"])
        for name, held in (("networks", self.networks), ("optimisers", self.optimisers)):
            for one, kept in zip(held, state[name], strict=True):
                one.load_state_dict(deepcopy(kept))


def _bound(x: Tensor, made: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """The autoencoder's bound on the likelihood, a number a pixel: the error in units of its own spread, and how far
    latents are from the prior."""
    error = (x - made).square().mean()
    away = (mean.square() + spread.exp() - spread - 1).sum(1).mean() / 2
    return error.clamp_min(1e-6).log() / 2 + away / math.prod(x.shape[1:])


def _adam(network: nn.Module, rate: float, momentum: float) -> torch.optim.Adam:
    return torch.optim.Adam(network.parameters(), rate, betas=(momentum, 0.99), foreach=True)
