"""Training of a generator: as the decoder of a variational autoencoder and, for colour images, which that alone would
blur, also against a critic.

The variance of the reconstruction error is the optimal one for each batch, so that no weight between error and prior
has to be tuned (Rybkin et al., ICML 2021, arXiv 2006.13202). The critic is trained with the hinge loss; in the
generator's loss it is weighted so that its gradient at the last layer is as large as that of the error (Esser et al.,
CVPR 2021, arXiv 2012.09841).
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
from moca.generator.network import Critic, Encoder, Generator, Shape
from moca.numerics import Numerics
from moca.random import Random, derive, seeded

_RATE, _CRITIC_RATE = 5e-4, 2e-4
_AVERAGE = 0.998
"""Decay of the moving average of the weights."""
_ALONE = 0.1
"""Share of the steps in which the autoencoder trains without the critic."""
_MOST = 10.0
"""Maximum weight of the critic in the generator's loss."""


class Pair(nn.Module):
    """The generator (decoder), and the encoder that infers a latent vector from an image."""

    def __init__(self, shape: Shape, classes: int, wide: bool) -> None:
        super().__init__()
        self.generator, self.guess = Generator(shape, classes, wide), Encoder(shape, classes, wide)


def steps_of(shape: Shape, wide: bool) -> int:
    """Default number of training steps, after which images are good."""
    return 10_000 if wide else 2000 if shape[0] == 1 else 4000


class Training:
    """Trains a generator on a data set's images for up to `wanted` steps. Between any two steps, `state_dict` holds all
    that is needed to resume."""

    def __init__(
        self, images: Split, classes: int, wanted: int, device: torch.device | str = "cpu", wide: bool = False
    ) -> None:
        channels, height, width = images.images.shape[1:]
        shape = (channels, height, width)
        self.device, self.wanted, self.batch = torch.device(device), wanted, 256 if wide else 64
        self.images, self.labels = images.images.to(device), images.labels.to(device)
        with seeded(derive(0, "generator")):
            self.pair = Pair(shape, classes, wide).to(device)
            self.critic = Critic(shape, classes, wide).to(device) if channels > 1 else None
        self.average = deepcopy(self.pair).requires_grad_(False)
        """The pair with the moving average of the weights, which is used in the end."""
        self.optimisers = [_adam(self.pair, _RATE, 0.9)]
        if self.critic is not None:
            self.optimisers.append(_adam(self.critic, _CRITIC_RATE, 0.0))
        self.networks = [network for network in (self.average, self.pair, self.critic) if network is not None]
        for network in self.networks:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.random = Random(0, "generator", device)
        self.done = 0
        self._numerics = Numerics(None, tf32=True if self.device.type == "cuda" else None)
        self._bf16 = has_bfloat16(self.device)

    def step(self) -> None:
        """One step of the autoencoder and one of the critic."""
        with self._numerics():
            x, y = self._draw()
            reconstruction = self._train_autoencoder(x, y)
            if self.critic is not None:
                self._train_critic(self.critic, x, reconstruction, y)
            self._update_average()
        self.done += 1

    def _draw(self) -> tuple[Tensor, Tensor]:
        """Draw a batch of images with values from -1 to 1; colour images are flipped with probability 1/2."""
        index = self.random.below(torch.full((self.batch,), len(self.labels), device=self.device))
        x = self.images[index].float() / 127.5 - 1
        if x.shape[1] > 1:
            x = torch.where(self.random.uniform(self.batch, 1, 1, 1) < 0.5, x.flip(3), x)
        return x.contiguous(memory_format=torch.channels_last), self.labels[index]

    def _train_autoencoder(self, x: Tensor, y: Tensor) -> Tensor:
        """One step of the autoencoder; returns its reconstructions."""
        with self._precision():
            mean, log_variance = (part.float() for part in self.pair.guess(x, y))
            z = mean + (log_variance / 2).exp() * self.random.normal(*mean.shape)
            reconstruction: Tensor = self.pair.generator(z, y).float()
        loss = _negative_elbo(x, reconstruction, mean, log_variance)
        if self.critic is not None and self.done > _ALONE * self.wanted:
            self.critic.requires_grad_(False)
            adversarial = -self._scores(self.critic, reconstruction, y).mean()
            self.critic.requires_grad_(True)
            last = self.pair.generator.end.weight
            norms = [torch.autograd.grad(term, last, retain_graph=True)[0].norm() for term in (loss, adversarial)]
            loss = loss + (norms[0] / (norms[1] + 1e-6)).clamp(max=_MOST).detach() * adversarial
        self._descend(loss, 0)
        return reconstruction.detach()

    def _train_critic(self, critic: Critic, x: Tensor, reconstruction: Tensor, y: Tensor) -> None:
        """One step of the critic, with the hinge loss."""
        real, fake = self._scores(critic, torch.cat([x, reconstruction]), torch.cat([y, y])).chunk(2)
        self._descend(F.relu(1 - real).mean() + F.relu(1 + fake).mean(), 1)

    def _scores(self, critic: Critic, x: Tensor, y: Tensor) -> Tensor:
        with parametrize.cached():
            critic.bound()  # in full precision, and only once per pass
            with self._precision():
                scores: Tensor = critic(x, y)
        return scores.float()

    def _descend(self, loss: Tensor, which: int) -> None:
        self.optimisers[which].zero_grad()
        loss.backward()
        self.optimisers[which].step()

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16)

    @torch.no_grad()
    def _update_average(self) -> None:
        """Move the average towards the weights; faster at first, so that the initial weights are forgotten."""
        rate = 1 - min(_AVERAGE, (1 + self.done) / (10 + self.done))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.pair.parameters()), rate)

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes."""
        return {
            "done": self.done,
            "networks": [network.state_dict() for network in self.networks],
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "random": self.random.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a `state_dict`."""
        self.done = state["done"]
        self.random.load_state_dict(state["random"])
        for name, objects in (("networks", self.networks), ("optimisers", self.optimisers)):
            for one, saved in zip(objects, state[name], strict=True):
                one.load_state_dict(deepcopy(saved))


def _negative_elbo(x: Tensor, reconstruction: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """The negative evidence lower bound per pixel value, up to a constant: the reconstruction error under its optimal
    variance, and the KL divergence of the latents from the prior."""
    error = (x - reconstruction).square().mean()
    divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum(1).mean() / 2
    return error.clamp_min(1e-6).log() / 2 + divergence / math.prod(x.shape[1:])


def _adam(network: nn.Module, rate: float, momentum: float) -> torch.optim.Adam:
    return torch.optim.Adam(network.parameters(), rate, betas=(momentum, 0.99), foreach=True)
