"""Geometry on the hypersphere: projection, angles, displacement and exact von Mises-Fisher samples. Pure functions.

Vectors lie along the last dimension, in any float type; half precision is computed in float32 and rounded once.
A zero vector has no direction: its projection is zero, never NaN.
"""

import math

import torch
from torch import Tensor

from moca import kernels
from moca.errors import MocaError
from moca.random import Random

__all__ = [
    "angle",
    "cap",
    "displace",
    "norm",
    "official_envelope",
    "official_limit",
    "project",
    "rotate",
    "sample_vmf",
]

_TINY = 1e-12
_PROPOSALS = 64
"""Rejection proposals per sample. Each is accepted with probability above 0.6, so all fail once in 10^25 samples."""
_WIDEST = 1 << 15
"""Most columns for the kernels: with four times as many they take minutes to compile."""


def norm(v: Tensor) -> Tensor:
    """Length of each vector, with the last dimension kept as size 1."""
    length: Tensor = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    return length


def project(v: Tensor) -> Tensor:
    """P(v) = v / ||v||: the unit vector of each row."""
    if _in_kernels(v):
        from moca.kernels import sphere as in_kernels

        return in_kernels.project(v, _TINY)
    precise = _precise(v)
    length = norm(precise)
    # Dividing by infinity, not by a tiny number: the gradient at a zero row is then zero, not enormous.
    return (precise / length.masked_fill(length <= _TINY, math.inf)).to(v.dtype)


def _in_kernels(v: Tensor) -> bool:
    """Whether the kernels, which handle a row as one block, apply to v and compile in seconds."""
    return kernels.usable(v) and v.dim() == 2 and v.shape[1] <= _WIDEST


def _precise(v: Tensor) -> Tensor:
    """v in float32 or better: the length of a long vector overflows in float16, and is coarse in bfloat16."""
    return v.to(torch.promote_types(v.dtype, torch.float32))


def angle(a: Tensor, b: Tensor) -> Tensor:
    """Angle between the rows of a and b in radians, accurate also near 0 and pi (Kahan); 90 degrees for a zero row."""
    a, b = project(_precise(a)), project(_precise(b))
    return (2 * torch.atan2(norm(a - b), norm(a + b))).squeeze(-1)


def displace(h: Tensor, n: Tensor, lam: float, unit: bool = True, old: Tensor | None = None) -> Tensor:
    """MOCA's displacement f = ||h|| P(P(h) + lam P(n)); without `unit`, n keeps its own length.

    Rows where `old` is false are unchanged, bit for bit; with lam = 0, all rows are.
    """
    if lam == 0:
        return h
    if _in_kernels(h) and h.shape == n.shape and h.dtype == n.dtype and not n.requires_grad:
        from moca.kernels import sphere as in_kernels

        return in_kernels.displace(h, n, lam, unit, old, _TINY)
    start, n = _precise(h), _precise(n)
    f = norm(start) * project(project(start) + lam * (project(n) if unit else n))
    f = f.to(h.dtype)
    return f if old is None else torch.where(old.unsqueeze(-1), f, h)


def rotate(h: Tensor, n: Tensor, alpha: float) -> Tensor:
    """Turn h towards n by exactly the angle alpha (radians), keeping its length; unchanged where n is parallel to h."""
    start = _precise(h)
    u, n = project(start), project(_precise(n))
    off = n - (n * u).sum(-1, keepdim=True) * u
    turned = math.cos(alpha) * u + math.sin(alpha) * project(off)
    # Cancellation leaves rounding noise, not a direction, in the off-axis part of a nearly parallel n.
    turned = torch.where(norm(off) > 1e3 * torch.finfo(u.dtype).eps, turned, u)
    return (norm(start) * project(turned)).to(h.dtype)


def cap(h: Tensor, f: Tensor, alpha: float) -> Tensor:
    """Limit the angle between h and its displaced version f to at most alpha (radians)."""
    return torch.where(angle(h, f).unsqueeze(-1) > alpha, rotate(h, f, alpha), f)


def official_limit(h: Tensor, n: Tensor, alpha: float) -> Tensor:
    """The official code's angle limit: P(n), shortened where adding it to P(h) would turn h by more than alpha.

    The factor sin(alpha) / sin(phi - alpha), with phi the angle between h and n, is applied where it lies between 0 and
    1, and is never differentiated. The official code multiplies the result by lambda, so lambda > 1 exceeds alpha.
    """
    with torch.no_grad():
        factor = (math.sin(alpha) / (angle(h, n) - alpha).sin()).unsqueeze(-1)
        factor = torch.where((factor > 0) & (factor < 1), factor, 1)
    return (factor * project(_precise(n))).to(n.dtype)


def sample_vmf(mu: Tensor, kappa: float, random: Random, b: float | None = None) -> Tensor:
    """One exact draw from vMF(mu, kappa) for each row of mu, for any dimension m >= 2 and any kappa >= 0.

    The cosine to mu is drawn by the rejection scheme of Ulrich and Wood; `b` is the parameter of its envelope, by
    default the exact one. Shapes are fixed: every row gets a fixed number of proposals and takes the first accepted.
    """
    rows, m = mu.shape
    if m < 2:
        raise MocaError(f"vMF needs features of 2 or more dimensions (they have {m})")
    w = _sample_cosine(m, kappa, rows, random, b)
    u = project(_precise(mu))
    tangent = random.normal(rows, m).to(u.dtype)
    tangent = project(tangent - (tangent * u).sum(-1, keepdim=True) * u)
    z = w.to(u.dtype) * u + ((1 - w) * (1 + w)).clamp_min(0).sqrt().to(u.dtype) * tangent
    return z.to(mu.dtype)


def official_envelope(kappa: float, m: int) -> float:
    """The `b` of the public vMF sampler in m dimensions, for `sample_vmf`.

    It is exact up to kappa = 10. From 11 on it is the approximation for kappa >> m, which biases the samples until
    kappa is about 2m. In between it is a blend of the two.
    """
    if kappa <= 10:
        return _envelope(kappa, m)
    wrong = min(kappa - 10, 1.0)
    return wrong * (m - 1) / (4 * kappa) + (1 - wrong) * _envelope(kappa, m)


def _envelope(kappa: float, m: int) -> float:
    """b = (c - 2 kappa) / (m - 1), c = sqrt(4 kappa^2 + (m - 1)^2), written without the cancellation."""
    return (m - 1) / (2 * kappa + math.sqrt(4 * kappa**2 + (m - 1) ** 2))


def _sample_cosine(m: int, kappa: float, rows: int, random: Random, b: float | None) -> Tensor:
    """The cosine between a vMF sample and its mean direction, in float64."""
    c = math.sqrt(4 * kappa**2 + (m - 1) ** 2)
    b = _envelope(kappa, m) if b is None else b
    a = (m - 1 + 2 * kappa + c) / 4
    d = 4 * a * b / (1 + b) - (m - 1) * math.log(m - 1)

    u = random.uniform(3, rows, _PROPOSALS, dtype=torch.float64)
    # e ~ Beta((m-1)/2, (m-1)/2) through Bailey's polar form of Student's t with m - 1 degrees of freedom.
    t = (2 * math.pi * u[1]).cos() * torch.expm1(u[0].log() * (-2 / (m - 1))).sqrt()
    e = (1 + t / (1 + t * t).sqrt()) / 2
    below = 1 - (1 - b) * e
    w, x = (1 - (1 + b) * e) / below, 2 * a * b / below
    accepted = (m - 1) * x.log() - x + d >= u[2].log()
    first = accepted.to(torch.uint8).argmax(1, keepdim=True)
    return w.gather(1, first)
