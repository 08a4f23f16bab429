"""Our own perturbations. All but `SteeredWAP` are as cheap as Gaussian noise: none needs a pass through the encoder.

User-defined parts, as docs/extend.md describes. In the root of the repository:
`moca compare --perturb gaussian benchmarks.own_perturbations.Balanced`. Why these, and the results:
docs/own-perturbation.md.
"""

from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from moca import Batch, Perturbation, option, sphere
from moca.batch import paired
from moca.perturb.wap import WAP
from moca.state import longer


class Varied(Perturbation):
    """Gaussian noise of random length: n = s P(e), s ~ U(0, 1), so that features near and far are classified alike."""

    scaled = False

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Noise with a random length for each sample."""
        noise = sphere.project(self.random.normal(*replay.features.shape))
        return self.random.uniform(len(noise), 1) * noise


class _Guided(Perturbation):
    """Base of perturbations that use the class vectors; the variant decides the length of n."""

    scaled = False
    recipes = {}

    @property
    def needs(self) -> tuple[str, ...]:
        """The classifier."""
        return ("model",)


class Matched(_Guided):
    """Moves features as far from their class vector as new samples are from theirs: there is no strength to choose.

    A replayed feature is at the angle theta to its class vector; a new sample, paired by row, at phi. Rotated by alpha,
    cos(alpha) = cos(phi) / cos(theta), orthogonally to feature and class vector, the feature is at phi. One that is
    already as far away stays.
    """

    lam: float = option(1.0, "factor on the tangent of the angle; 1 is matched", ge=0, alias="lambda")
    steepest: float = option(0.2, "least cos(alpha): 0.2 is 78 degrees", gt=0, le=1)

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Noise orthogonal to feature and class vector, as long as the tangent of the angle."""
        vectors = sphere.project(self.model.class_vectors.float())
        u, own = sphere.project(replay.features.float()), vectors[replay.y]
        theta = _cosine(u, own)
        phi = paired(_cosine(sphere.project(new.features.float()), vectors[new.y]), len(u))
        alpha = torch.where(theta > phi, phi / theta.clamp_min(1e-6), 1).clamp(self.steepest, 1)
        return (1 - alpha**2).sqrt() / alpha * sphere.project(_across(self.random.normal(*u.shape), u, own))


class Kept(Perturbation):
    """The variation that a class had while it was new: n = s_c * e, s_c its standard deviation in each dimension.

    While a class is among the new samples, running means of the first two moments of its unit features are updated.
    Classes of the first task, where no perturbation is called, get the mean variance of the classes that have moments.
    """

    lam: float = option(1.0, "factor on the variation that the class had", ge=0, alias="lambda")
    momentum: float = option(0.95, "momentum of the moments", ge=0, lt=1)

    scaled = False
    recipes = {}
    remembers = ("first", "second", "batches")
    first: Tensor | None = None
    """Mean unit feature of each class."""
    second: Tensor | None = None
    """Mean of its squares."""
    batches: Tensor | None = None
    """Number of batches that each class was in; the first one initialises its moments."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The number of classes, for their moments."""
        return ("classes",)

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Noise with the stored standard deviation of each sample's class."""
        self._update_moments(sphere.project(new.features.float()), new.y)
        return self.variance()[replay.y].sqrt() * self.random.normal(*replay.features.shape)

    def variance(self) -> Tensor:
        """Variance of each class in each dimension; for classes without moments, the mean over the others."""
        assert self.first is not None and self.second is not None and self.batches is not None
        known = (self.batches > 0).float()
        each = (self.second - self.first**2).clamp_min(0)
        mean = (known * each).sum(0) / known.sum().clamp_min(1)
        return torch.where(known > 0, each, mean)

    def _update_moments(self, u: Tensor, y: Tensor) -> None:
        """Update the running moments of the classes in this batch."""
        if self.first is None or self.second is None or self.batches is None:
            self.first, self.second = (u.new_zeros(self.classes, u.shape[1]) for _ in range(2))
            self.batches = u.new_zeros(self.classes, 1)
        members = F.one_hot(y, len(self.first)).to(u.dtype)
        count = members.sum(0).unsqueeze(1)
        keep = torch.where(self.batches > 0, self.momentum, 0.0)
        for moment, values in ((self.first, u), (self.second, u**2)):
            moment.copy_(
                torch.where(count > 0, keep * moment + (1 - keep) * (members.T @ values) / count.clamp_min(1), moment)
            )
        self.batches += count > 0

    def grow(self, classes: int) -> None:
        """Extend the moments to more classes."""
        super().grow(classes)
        if self.first is not None and self.second is not None and self.batches is not None:
            self.first, self.second, self.batches = (
                longer(m, classes) for m in (self.first, self.second, self.batches)
            )


class Rival(_Guided):
    """Moves features a random share of the way towards the nearest other class vector: n = s t, s ~ U(0, 1)."""

    lam: float = option(1.0, "length of the whole way", ge=0, alias="lambda")

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Along the tangent towards the strongest rival."""
        vectors = sphere.project(self.model.class_vectors.float())
        u = sphere.project(replay.features.float())
        others = (u @ vectors.T).scatter(1, replay.y.unsqueeze(1), -2)
        rival = vectors[others.argmax(1)]
        return self.random.uniform(len(u), 1) * _tangent(u, rival)


class Balanced(Perturbation):
    """Moves the losing side, old classes or current ones, towards its strongest rival on the other side.

    r is the share of new samples that are classified as old, a running mean, and w = 1 - r / even, clamped to [-1, 1].
    Old rows move by lambda s max(w, 0) and current ones by lambda s max(-w, 0), s ~ U(0, 1), along the tangent towards
    the nearest class vector of the other side.
    """

    lam: float = option(1.0, "length of the whole way; from a right angle, 1 ends halfway", ge=0, alias="lambda")
    towards: Literal["rival", "noise"] = option("rival", "the strongest rival on the other side, or Gaussian noise")
    even: float = option(0.25, "r at which neither side loses", gt=0)
    momentum: float = option(0.9, "momentum of r", ge=0, lt=1)

    recipes = {}
    remembers = ("excess", "are_old")
    excess: Tensor | None = None
    """r - even; 0, so that neither side loses, before the first batch."""
    are_old: Tensor | None = None
    """1 for each class that was replayed as an old class."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The classifier."""
        return ("model",)

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """A random share of the way, for both sides; `_move` decides which side is moved."""
        are_old = self.update_balance(replay, new)
        u = sphere.project(replay.features.float())
        if self.towards == "noise":
            return sphere.project(self.random.normal(*u.shape))
        vectors = sphere.project(self.model.class_vectors.float())
        same_side = are_old == are_old[replay.y].unsqueeze(1)
        rival = vectors[(u @ vectors.T - 4 * same_side).argmax(1)]
        return self.random.uniform(len(u), 1) * _tangent(u, rival)

    def update_balance(self, replay: Batch, new: Batch) -> Tensor:
        """Update the share of new samples that are classified as old; return which classes are old."""
        logits = self.model.classify(new.features.float())[:, :: self.model.outputs]
        if self.excess is None or self.are_old is None:
            self.excess, self.are_old = logits.new_zeros(()), logits.new_zeros(logits.shape[1])
        rows = F.one_hot(replay.y, len(self.are_old)).to(logits.dtype)
        if replay.old is not None:
            rows = rows * replay.old.unsqueeze(1)
        self.are_old.copy_(torch.maximum(self.are_old, rows.amax(0)))
        r = self.are_old[logits.argmax(1)].mean()
        self.excess.copy_(self.momentum * self.excess + (1 - self.momentum) * (r - self.even))
        return self.are_old

    @property
    def w(self) -> Tensor:
        """1 if no new sample is classified as old, 0 if neither side loses, -1 if old classes win by far."""
        assert self.excess is not None
        return (-self.excess / self.even).clamp(-1, 1)

    def _move(self, h: Tensor, n: Tensor, old: Tensor | None) -> Tensor:
        share = self.w if old is None else torch.where(old.unsqueeze(1), self.w, -self.w)
        return sphere.displace(h, share.clamp_min(0) * n, self.lam, unit=False)

    def grow(self, classes: int) -> None:
        """Extend the state to more classes."""
        super().grow(classes)
        if self.are_old is not None:
            self.are_old = longer(self.are_old, classes)


class SteeredWAP(WAP):
    """WAP that becomes weaker as old classes win, at the cost of WAP: n = max(w, 0) P(n of WAP), w of `Balanced`."""

    even: float = option(0.25, "share of new samples classified as old at which nothing moves", gt=0)

    scaled = False
    recipes = {}
    remembers = ("balance",)

    def attach(self, *parts: Any, **named: Any) -> Self:
        """Set what it works with, and start the count."""
        super().attach(*parts, **named)
        self.balance = Balanced(even=self.even).attach(self.random, self.model)
        return self

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """WAP's direction with a length that follows the count."""
        self.balance.update_balance(replay, new)
        return self.balance.w.clamp_min(0) * sphere.project(super().direction(replay, new))

    def grow(self, classes: int) -> None:
        """Extend the count to more classes."""
        super().grow(classes)
        self.balance.grow(classes)


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)


def _tangent(u: Tensor, v: Tensor) -> Tensor:
    """The unit vector at u that points to v along the sphere."""
    return sphere.project(v - _cosine(u, v) * u)


def _across(n: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """The component of n orthogonal to the unit vectors u and v."""
    v = _tangent(u, v)
    return n - _cosine(n, u) * u - _cosine(n, v) * v
