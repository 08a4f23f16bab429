"""Geometry against hand-placed vectors, and vMF samples against closed forms and scipy."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.utils._python_dispatch import TorchDispatchMode

from moca import kernels, sphere
from moca.random import Random

F64 = torch.float64
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ANGLES = [1e-6, 1e-3, 0.1, 1.0, math.pi / 2, 2.0, 3.0, math.pi - 1e-3, math.pi - 1e-6]


def frame(d: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Two orthonormal vectors of dimension d that are no coordinate axes."""
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, 2)))
    return torch.from_numpy(q[:, 0]), torch.from_numpy(q[:, 1])


def at_angle(phi: float, length: float = 1.0, d: int = 6) -> torch.Tensor:
    """A vector of the given length at the angle phi to the first vector of the frame."""
    e1, e2 = frame(d)
    return length * (math.cos(phi) * e1 + math.sin(phi) * e2)


def degrees(a: torch.Tensor, b: torch.Tensor) -> float:
    """Angle by the textbook's arc cosine."""
    a, b = a.double().flatten(), b.double().flatten()
    return math.degrees(math.acos(max(-1.0, min(1.0, float(a @ b / (a.norm() * b.norm()))))))


class TestProject:
    def test_a_known_vector(self):
        v = torch.tensor([[3.0, 0, 4.0], [0, -2.0, 0]])
        assert torch.equal(sphere.project(v), torch.tensor([[0.6, 0, 0.8], [0, -1.0, 0]]))
        assert torch.equal(sphere.norm(v), torch.tensor([[5.0], [2.0]]))

    @settings(deadline=None, derandomize=True, max_examples=50)
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.floats(1e-3, 1e3))
    def test_unit_length_whatever_the_length(self, values, scale):
        v = torch.tensor(values, dtype=F64)
        if v.norm() > 1e-6:
            assert sphere.norm(sphere.project(v)).item() == pytest.approx(1)
            torch.testing.assert_close(sphere.project(scale * v), sphere.project(v))

    def test_any_leading_dimensions(self):
        v = Random(0, "p").normal(2, 3, 4)
        torch.testing.assert_close(sphere.project(v)[1, 2], v[1, 2] / v[1, 2].norm())

    def test_gradient(self):
        v = Random(0, "p").normal(4, 5).double().requires_grad_()
        assert torch.autograd.gradcheck(sphere.project, v)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_a_zero_row_and_its_gradient_are_zero(self, dtype):
        v = torch.tensor([[0, 0], [3, 4]], dtype=dtype, requires_grad=True)
        p = sphere.project(v)
        assert torch.equal(p[0], torch.zeros(2, dtype=dtype))
        (gradient,) = torch.autograd.grad(p.sum(), v)
        assert torch.equal(gradient[0], torch.zeros(2, dtype=dtype))
        assert gradient[1].isfinite().all()


class TestAngle:
    @pytest.mark.parametrize("phi", ANGLES)
    @pytest.mark.parametrize("lengths", [(1, 1), (1e-3, 1e3), (7, 0.2)])
    def test_chosen_angles(self, phi, lengths):
        a, b = at_angle(0, lengths[0]), at_angle(phi, lengths[1])
        assert sphere.angle(a, b).item() == pytest.approx(phi, rel=1e-9)
        assert sphere.angle(b, a).item() == pytest.approx(phi, rel=1e-9)

    @pytest.mark.parametrize("phi", [1e-6, math.pi - 1e-6])
    def test_accurate_in_float32_where_the_arc_cosine_is_not(self, phi):
        e1, e2 = torch.eye(2)
        b = e1 * math.copysign(1, math.cos(phi)) + math.sin(phi) * e2
        if phi < 1:
            assert sphere.angle(e1, b).item() == pytest.approx(phi, rel=1e-6)
            assert torch.acos((e1 * sphere.project(b)).sum()) == 0
        # float32 numbers near pi are 2.4e-7 apart.
        assert sphere.angle(e1, b).item() == pytest.approx(phi, abs=3e-7)

    def test_equal_and_opposite(self):
        a = at_angle(0.3)
        assert sphere.angle(a, a) == 0
        assert sphere.angle(a, -a).item() == pytest.approx(math.pi)

    def test_rows(self):
        a, b = Random(0, "p").normal(2, 7, 5)
        got = sphere.angle(a, b)
        assert got.shape == (7,)
        assert [math.degrees(g) for g in got.tolist()] == pytest.approx(
            [degrees(x, y) for x, y in zip(a, b, strict=True)], abs=1e-3
        )

    def test_a_zero_row_is_at_a_right_angle(self):
        assert sphere.angle(torch.zeros(3), torch.ones(3)).item() == pytest.approx(math.pi / 2)


class TestDisplace:
    def test_against_a_loop(self):
        h, n = Random(0, "p").normal(2, 6, 5).double()
        for lam, unit in ((0.8, True), (2.0, True), (0.5, False)):
            got = sphere.displace(h, n, lam, unit)
            for i in range(6):
                direction = n[i] / n[i].norm() if unit else n[i]
                moved = h[i] / h[i].norm() + lam * direction
                torch.testing.assert_close(got[i], h[i].norm() * moved / moved.norm())

    @pytest.mark.parametrize(
        ("lam", "expected"),
        [(0.5, 26.6), (0.8, 38.7), (1, 45.0), (1.5, 56.3), (2, 63.4), (3, 71.6), (4, 76.0)],
    )
    def test_rotation_by_orthogonal_noise(self, lam, expected):
        h, n = at_angle(0, 5.0), at_angle(math.pi / 2, 0.3)
        assert degrees(h, sphere.displace(h, n, lam)) == pytest.approx(expected, abs=0.05)

    def test_rotation_by_noise_at_forty_degrees(self):
        h, n = at_angle(0), at_angle(math.radians(40))
        assert degrees(h, sphere.displace(h, n, 2.0)) == pytest.approx(26.9, abs=0.05)

    @settings(deadline=None, derandomize=True, max_examples=100)
    @given(
        phi=st.floats(0, math.pi - 1e-3),
        lam=st.floats(0, 5),
        length=st.floats(1e-3, 1e3),
        noise=st.floats(1e-3, 1e3),
    )
    def test_rotation_formula_and_kept_norm(self, phi, lam, length, noise):
        h, n = at_angle(0, length), at_angle(phi, noise)
        f = sphere.displace(h, n, lam)
        expected = math.atan2(lam * math.sin(phi), 1 + lam * math.cos(phi))
        assert sphere.angle(h, f).item() == pytest.approx(expected, abs=1e-9)
        assert f.norm().item() == pytest.approx(length)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("lam", [0, 0.0, -0.0])
    def test_lambda_zero_stays_bit_for_bit_with_a_plain_gradient(self, dtype, lam):
        h, n = (v.to(dtype) for v in Random(0, "p").normal(2, 60, 5))
        h.requires_grad_()
        f = sphere.displace(h, n, lam, old=torch.arange(60) % 2 == 0)
        df = Random(1, "p").normal(60, 5).to(dtype)
        assert torch.equal(f, h)
        assert torch.equal(torch.autograd.grad(f, h, df)[0], df)

    @pytest.mark.parametrize("unit", [True, False])
    def test_gradient_with_the_direction_constant(self, unit):
        h, n = Random(0, "p").normal(2, 4, 5).double()
        assert torch.autograd.gradcheck(lambda h: sphere.displace(h, n, 2.0, unit), h.clone().requires_grad_())

    def test_gradient_shrinks_by_one_over_root_one_plus_lambda_squared(self):
        # For orthogonal noise and a gradient orthogonal to both: the second projection's factor, not compensated.
        lam, g = 2.0, torch.tensor([0, 0, 1.0])
        h = torch.tensor([1.0, 0, 0], requires_grad=True)
        f = sphere.displace(h, torch.tensor([0, 1.0, 0]), lam)
        (gradient,) = torch.autograd.grad(f @ g, h)
        torch.testing.assert_close(gradient, g / math.sqrt(1 + lam**2))


class TestRotate:
    @pytest.mark.parametrize("alpha", ANGLES)
    @pytest.mark.parametrize("phi", [0.2, 1.0, 2.5])
    def test_exact_angle_in_the_plane_towards_n(self, alpha, phi):
        h, n = at_angle(0, 3.0), at_angle(phi, 0.1)
        torch.testing.assert_close(sphere.rotate(h, n, alpha), at_angle(alpha, 3.0), rtol=1e-9, atol=1e-9)

    @settings(deadline=None, derandomize=True, max_examples=50)
    @given(seed=st.integers(0, 10**6), alpha=st.floats(0, math.pi), d=st.integers(2, 20))
    def test_against_the_formula(self, seed, alpha, d):
        h, n = Random(seed, "p").normal(2, d).double()
        u = h / h.norm()
        v = n - (n @ u) * u
        expected = h.norm() * (math.cos(alpha) * u + math.sin(alpha) * v / v.norm())
        torch.testing.assert_close(sphere.rotate(h, n, alpha), expected, rtol=1e-7, atol=1e-7)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_angle_in_every_precision(self, dtype):
        h, n = (v.to(dtype) for v in Random(0, "p").normal(2, 8, 16))
        f = sphere.rotate(h, n, math.radians(30))
        assert f.dtype == dtype
        got = sphere.angle(h.double(), f.double()).rad2deg()
        assert (got - 30).abs().max() < 60 * torch.finfo(dtype).eps + 1e-9

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("alpha", [0.5, math.pi / 2, 2.0])
    @pytest.mark.parametrize("along", [1.0, -1.0, 0.0, 1e-3])
    def test_stays_where_there_is_no_direction(self, dtype, alpha, along):
        h = Random(0, "p").normal(5, 7).to(dtype)
        f = sphere.rotate(h, (h.double() * along).to(dtype) if along != 1e-3 else h / 1024, alpha)
        torch.testing.assert_close(f, h, rtol=4 * torch.finfo(dtype).eps, atol=0)

    def test_gradient_with_the_direction_constant(self):
        h, n = Random(0, "p").normal(2, 4, 5).double()
        assert torch.autograd.gradcheck(lambda h: sphere.rotate(h, n, 0.7), h.clone().requires_grad_())


class TestCap:
    def test_smaller_angles_are_left_alone_larger_ones_cut(self):
        phis = [0.05, 0.2, 0.49, 0.51, 1.5, 3.0]
        h = torch.stack([at_angle(0, 2.0)] * len(phis))
        f = torch.stack([at_angle(phi, 2.0) for phi in phis])
        got = sphere.cap(h, f, 0.5)
        assert torch.equal(got[:3], f[:3])
        torch.testing.assert_close(got[3:], torch.stack([at_angle(0.5, 2.0)] * 3))

    def test_the_opposite_has_no_way_back_but_home(self):
        h = at_angle(0, 2.0)
        for alpha in (0.5, 2.0):
            torch.testing.assert_close(sphere.cap(h, -h, alpha), h)

    @settings(deadline=None, derandomize=True, max_examples=50)
    @given(seed=st.integers(0, 10**6), lam=st.floats(0, 5), alpha=st.floats(0.01, 3.1))
    def test_never_exceeded(self, seed, lam, alpha):
        h, n = Random(seed, "p").normal(2, 8, 6).double()
        f = sphere.displace(h, n, lam)
        got = sphere.cap(h, f, alpha)
        assert (sphere.angle(h, got) <= alpha + 1e-9).all()
        torch.testing.assert_close(got.norm(dim=-1), h.norm(dim=-1))

    def test_gradient_on_both_sides(self):
        h, n = Random(0, "p").normal(2, 6, 5).double()
        angles = sphere.angle(h, sphere.displace(h, n, 1.0))
        alpha = angles.median().item() + 1e-3
        assert 0 < (angles > alpha).sum() < 6
        capped = lambda h: sphere.cap(h, sphere.displace(h, n, 1.0), alpha)  # noqa: E731
        assert torch.autograd.gradcheck(capped, h.clone().requires_grad_())


class TestOfficialLimit:
    """The noise of the official code: P(n) times sin(alpha) / sin(phi - alpha) where that is in (0, 1)."""

    @pytest.mark.parametrize(
        ("lam", "phi", "expected"),
        [(1.5, 61, 36.7), (1.5, 90, 40.9), (1.0, 61, 30.0), (1.0, 90, 30.0), (1.0, 149, 30.0)],
    )
    def test_rotation_after_lambda(self, lam, phi, expected):
        h, n = at_angle(0, 3.0), at_angle(math.radians(phi), 0.2)
        f = sphere.displace(h, sphere.official_limit(h, n, math.radians(30)), lam, unit=False)
        assert degrees(h, f) == pytest.approx(expected, abs=0.05)

    @pytest.mark.parametrize("alpha", [5, 30, 60, 89, 120])
    def test_against_a_loop(self, alpha):
        phis = [0, 10, alpha - 1, alpha, alpha + 1, 2 * alpha - 1, 2 * alpha + 1, 90, 149, 151, 179, 180]
        for phi in (phi for phi in phis if phi <= 180):
            h, n = at_angle(0, 2.0), at_angle(math.radians(phi), 5.0)
            below = math.sin(math.radians(phi - alpha))
            factor = math.sin(math.radians(alpha)) / below if abs(below) > 1e-9 else math.inf
            factor = factor if 0 < factor < 1 else 1.0
            got = sphere.official_limit(h, n, math.radians(alpha))
            torch.testing.assert_close(got, factor * n / n.norm(), msg=f"phi {phi}")

    def test_each_row_on_its_own(self):
        h, n = Random(0, "p").normal(2, 9, 3).double()
        got = sphere.official_limit(h, n, 0.5)
        assert len({round(length, 6) for length in got.norm(dim=-1).tolist()}) > 3
        for i in range(9):
            torch.testing.assert_close(got[i], sphere.official_limit(h[i], n[i], 0.5))

    def test_the_factor_is_not_differentiated(self):
        h, n = at_angle(0).requires_grad_(), at_angle(math.pi / 2)
        assert not sphere.official_limit(h, n, 0.5).requires_grad


class TestFloatTypes:
    """Half precision costs the rounding of the input and that of the output, nothing in between."""

    FUNCTIONS = {
        "project": lambda h, n: sphere.project(h),
        "displace": lambda h, n: sphere.displace(h, n, 1.5),
        "literal": lambda h, n: sphere.displace(h, n, 1.5, unit=False),
        "some": lambda h, n: sphere.displace(h, n, 1.5, old=torch.arange(40) % 3 > 0),
        "rotate": lambda h, n: sphere.rotate(h, n, 0.6),
        "cap": lambda h, n: sphere.cap(h, sphere.displace(h, n, 1.5), 0.6),
        "limit": lambda h, n: sphere.official_limit(h, n, 0.6),
        "vmf": lambda h, n: sphere.sample_vmf(h, 50.0, Random(2, "p")),
    }

    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    @pytest.mark.parametrize("length", [1.0, 5000.0])
    def test_rounded_once(self, name, dtype, length):
        function = self.FUNCTIONS[name]
        # 512 numbers of about 5000 are a vector longer than any number of float16.
        h, n = (v.to(dtype) for v in length * Random(0, "p").normal(2, 40, 512))
        got, exact = function(h, n), function(h.double(), n.double())
        # What is capped was rounded before.
        eps, most = torch.finfo(dtype).eps, exact.abs().max().item()
        close = {"rtol": 0.51 * eps, "atol": (eps if name == "cap" else 2e-5) * most}
        close = close if dtype != torch.float32 else {"rtol": 1e-4, "atol": 1e-5 * most}
        assert got.dtype == dtype
        assert got.isfinite().all()
        torch.testing.assert_close(got.double(), exact, **close)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_gradients(self, dtype):
        h, n, df = (v.to(dtype) for v in Random(0, "p").normal(3, 40, 64))
        gradients = []
        for kind in (dtype, F64):
            leaf = h.to(kind).requires_grad_()
            f = sphere.displace(leaf, n.to(kind), 1.5)
            gradients.append(torch.autograd.grad(f, leaf, df.to(kind))[0])
        assert gradients[0].dtype == dtype
        torch.testing.assert_close(gradients[0].double(), gradients[1], rtol=torch.finfo(dtype).eps, atol=1e-4)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_angles_are_not_rounded_to_half_precision(self, dtype):
        a, b = (v.to(dtype) for v in Random(0, "p").normal(2, 40, 64))
        torch.testing.assert_close(sphere.angle(a, b).double(), sphere.angle(a.double(), b.double()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("second", [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0)])
@pytest.mark.parametrize("first", [(0, 0, 0), (1, 0, 0)])
@pytest.mark.parametrize(
    "function",
    [
        sphere.angle,
        lambda h, n: sphere.displace(h, n, 1.0),
        lambda h, n: sphere.displace(h, n, 1.0, unit=False),
        lambda h, n: sphere.rotate(h, n, 0.5),
        lambda h, n: sphere.rotate(h, n, 2.0),
        lambda h, n: sphere.cap(h, n, 0.5),
        lambda h, n: sphere.cap(h, sphere.displace(h, n, 1.0), 2.0),
        lambda h, n: sphere.displace(h, sphere.official_limit(h, n, 0.5), 1.0, unit=False),
    ],
    ids=["angle", "displace", "displace_literal", "rotate", "rotate_far", "cap", "cap_far", "official_limit"],
)
def test_degenerate_vectors_give_finite_values_and_gradients(function, first, second, dtype):
    a = torch.tensor([first, (1, 2, 3)], dtype=dtype, requires_grad=True)
    b = torch.tensor([second, (3, 2, 1)], dtype=dtype, requires_grad=True)
    out = function(a, b)
    gradients = torch.autograd.grad(out.float().sum(), (a, b), allow_unused=True)
    assert out.isfinite().all()
    for gradient in gradients:
        assert gradient is None or gradient.abs().max() < 1e3


def mean_cosine(d: int, kappa: float) -> float:
    """A_d(kappa) = I_{d/2}(kappa) / I_{d/2-1}(kappa), in arithmetic that neither over- nor underflows."""
    if kappa == 0:
        return 0.0
    # Gauss's continued fraction of the ratio, by Lentz's method.
    with mpmath.workdps(30):
        order, k = mpmath.mpf(d) / 2, mpmath.mpf(kappa)
        f = c = 2 * order / k
        inverse = mpmath.mpf(0)
        for j in range(1, 10**6):
            b = 2 * (order + j) / k
            inverse = 1 / (b + inverse)
            c = b + 1 / c
            f *= c * inverse
            if abs(c * inverse - 1) < mpmath.mpf(10) ** -20:
                break
        return float(1 / f)


def cosine_distribution(d: int, kappa: float):
    """CDF of the cosine to the mean, by quadrature over the angle: density exp(kappa cos t) sin(t)^(d-2)."""

    def log_density(t):
        return kappa * np.cos(t) + ((d - 2) * np.log(np.sin(t)) if d > 2 else 0)

    t = np.linspace(0, np.pi, 20_001)[1:-1]
    kept = log_density(t) > log_density(t).max() - 60
    t = np.linspace(max(t[kept][0] - 2e-4, 1e-9), min(t[kept][-1] + 2e-4, np.pi - 1e-9), 40_001)
    density = np.exp(log_density(t) - log_density(t).max())
    mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda w: 1 - np.interp(np.arccos(np.clip(w, -1, 1)), t, mass / mass[-1])


def samples(d: int, kappa: float, count: int, seed: int = 0, b: float | None = None):
    """Unit mean direction, samples, and their cosines, in float64."""
    mu = sphere.project(Random(99, "mu").normal(1, d).double())
    z = sphere.sample_vmf(mu.expand(count, d), kappa, Random(seed, "p"), b)
    return mu, z, (z @ mu.T).squeeze(1).clamp(-1, 1).numpy()


KAPPAS = [0, 0.1, 1, 10, 50, 100, 1000, 1e5]
DIMENSIONS = [2, 3, 10, 160, 512]


class TestVMF:
    def test_the_mean_we_compare_with(self):
        # d = 3: coth(kappa) - 1/kappa. d = 2 and 10: the ratio of Bessel functions. d = 512: measured elsewhere.
        for kappa in (0.1, 1.0, 10.0, 100.0):
            assert mean_cosine(3, kappa) == pytest.approx(1 / math.tanh(kappa) - 1 / kappa)
            for d in (2, 10):
                ratio = mpmath.besseli(d / 2, kappa) / mpmath.besseli(d / 2 - 1, kappa)
                assert mean_cosine(d, kappa) == pytest.approx(float(ratio))
        for kappa, expected in ((50, 0.097), (100, 0.188), (200, 0.344), (500, 0.612)):
            assert mean_cosine(512, kappa) == pytest.approx(expected, abs=5e-4)

    @pytest.mark.parametrize("d", DIMENSIONS)
    @pytest.mark.parametrize("kappa", KAPPAS)
    def test_cosine_is_exactly_distributed(self, d, kappa):
        count = 4000
        _, z, w = samples(d, kappa, count)
        torch.testing.assert_close(z.norm(dim=-1), torch.ones(count, dtype=F64), rtol=1e-6, atol=0)
        mean = mean_cosine(d, kappa)
        variance = 1 - mean**2 - (d - 1) * mean / kappa if kappa else 1 / d
        # For large kappa the closed form cancels; the leading term is then (d - 1) / (2 kappa^2).
        variance = variance if kappa < 1e4 else (d - 1) / (2 * kappa**2)
        assert abs(w.mean() - mean) < 4 * math.sqrt(variance / count)
        assert stats.kstest(w, cosine_distribution(d, kappa)).pvalue > 1e-3

    @pytest.mark.parametrize("d", DIMENSIONS)
    @pytest.mark.parametrize("kappa", [0.5, 20, 300])
    def test_agrees_with_scipy(self, d, kappa):
        count = 2000
        mu, z, w = samples(d, kappa, count)
        direction = mu.squeeze(0).numpy()
        peer = stats.vonmises_fisher(direction, kappa).rvs(count, random_state=np.random.default_rng(1))
        assert stats.ks_2samp(w, peer @ direction).pvalue > 1e-3
        # A coordinate across the mean: its distribution needs the tangential part to be isotropic.
        across = frame_across(direction)
        assert stats.ks_2samp(z.numpy() @ across, peer @ across).pvalue > 1e-3

    @pytest.mark.parametrize("d", [3, 10, 160])
    def test_tangential_part_is_isotropic(self, d):
        count = 3000
        mu, z, w = samples(d, 30.0, count)
        tangent = z - torch.from_numpy(w).unsqueeze(1) * mu
        basis = torch.linalg.svd(mu).Vh[1:]
        coordinates = sphere.project(tangent) @ basis.T
        m = d - 1
        for j in (0, m // 2, m - 1):
            # (1 + x) / 2 of a coordinate x of a uniform point on S^{m-1} is Beta((m-1)/2, (m-1)/2).
            assert stats.kstest((1 + coordinates[:, j].numpy()) / 2, "beta", args=((m - 1) / 2,) * 2).pvalue > 1e-3
        covariance = (coordinates.T @ coordinates / count - torch.eye(m) / m).abs().max()
        assert covariance < 5 * math.sqrt(2) / m / math.sqrt(count)
        # The direction across tells nothing of the angle to the mean.
        assert stats.spearmanr(w, coordinates[:, 0].abs().numpy()).pvalue > 1e-3

    def test_on_the_circle_both_sides_are_equally_likely(self):
        mu, z, _ = samples(2, 3.0, 4000)
        side = mu[0, 0] * z[:, 1] - mu[0, 1] * z[:, 0]
        assert stats.binomtest(int((side > 0).sum()), 4000).pvalue > 1e-3

    def test_kappa_zero_is_uniform_on_the_sphere(self):
        d, count = 5, 5000
        _, z, _ = samples(d, 0.0, count)
        for j in range(d):
            assert stats.kstest((1 + z[:, j].numpy()) / 2, "beta", args=((d - 1) / 2,) * 2).pvalue > 1e-3
        assert (z.mean(0).norm() ** 2).item() < stats.chi2(d).ppf(0.999) / (d * count)

    @pytest.mark.parametrize(
        ("kappa", "wrong", "right"),
        [(50, -0.436, 0.097), (100, -0.123, 0.188), (200, 0.219, 0.344), (500, 0.592, 0.612)],
    )
    def test_official_envelope_has_the_published_bias(self, kappa, wrong, right):
        _, _, biased = samples(512, kappa, 3000, b=sphere.official_envelope(kappa, 512))
        _, _, exact = samples(512, kappa, 3000)
        assert biased.mean() == pytest.approx(wrong, abs=0.003)
        assert exact.mean() == pytest.approx(right, abs=0.003)

    @pytest.mark.parametrize(("kappa", "wrong"), [(1, 0), (10, 0), (10.25, 0.25), (10.5, 0.5), (11, 1), (60, 1)])
    @pytest.mark.parametrize("m", [2, 160, 512])
    def test_official_envelope_blends_from_exact_to_wrong(self, kappa, wrong, m):
        exact = (math.sqrt(4 * kappa**2 + (m - 1) ** 2) - 2 * kappa) / (m - 1)
        expected = (1 - wrong) * exact + wrong * (m - 1) / (4 * kappa)
        assert sphere.official_envelope(kappa, m) == pytest.approx(expected, rel=1e-9)

    def test_official_envelope_of_the_uniform_distribution(self):
        assert sphere.official_envelope(0, 512) == 1

    def test_up_to_ten_the_official_envelope_draws_the_exact_samples(self):
        mu = Random(0, "p").normal(50, 64)
        for kappa in (0.0, 1.0, 10.0):
            z = sphere.sample_vmf(mu, kappa, Random(1, "p"), sphere.official_envelope(kappa, 64))
            assert torch.equal(z, sphere.sample_vmf(mu, kappa, Random(1, "p")))

    @pytest.mark.parametrize("kappa", [10.5, 60.0])
    def test_official_envelope_is_that_of_the_public_sampler(self, kappa):
        """The public sampler one sample at a time, looping until accepted, with its own formulas."""
        d, rng = 160, np.random.default_rng(0)
        c = math.sqrt(4 * kappa**2 + (d - 1) ** 2)
        s = min(max(kappa - 10, 0.0), 1.0)
        b = s * (d - 1) / (4 * kappa) + (1 - s) * (c - 2 * kappa) / (d - 1)
        a = (d - 1 + 2 * kappa + c) / 4
        shift = 4 * a * b / (1 + b) - (d - 1) * math.log(d - 1)
        public = []
        while len(public) < 3000:
            e, u = rng.beta((d - 1) / 2, (d - 1) / 2), rng.uniform()
            t = 2 * a * b / (1 - (1 - b) * e)
            if (d - 1) * math.log(t) - t + shift >= math.log(u):
                public.append((1 - (1 + b) * e) / (1 - (1 - b) * e))
        _, _, w = samples(d, kappa, 3000, b=sphere.official_envelope(kappa, d))
        assert stats.ks_2samp(w, public).pvalue > 1e-3

    def test_each_row_has_its_own_mean(self):
        mu = sphere.project(Random(0, "p").normal(20, 50).double())
        z = sphere.sample_vmf(mu, 1e5, Random(1, "p"))
        # At kappa = 1e5 and d = 50 the angle to the own mean is about sqrt(49/1e5) = 1.3 degrees.
        assert (sphere.angle(mu, z) < math.radians(2.5)).all()
        assert not torch.equal(z, sphere.sample_vmf(mu, 1e5, Random(2, "p")))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_length_of_mu_is_ignored_and_its_dtype_kept(self, dtype):
        mu = Random(0, "p").normal(50, 64)
        z = sphere.sample_vmf((4 * mu).to(dtype), 100.0, Random(1, "p"))
        assert z.dtype == dtype
        expected = sphere.sample_vmf(sphere.project(mu).double(), 100.0, Random(1, "p"))
        torch.testing.assert_close(z.double(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("kappa", [0.0, 100.0, 1e5])
    def test_a_zero_mean_gives_no_nan_and_leaves_the_others(self, dtype, kappa):
        mu = Random(0, "p").normal(4, 64).to(dtype)
        alone = sphere.sample_vmf(mu, kappa, Random(1, "p"))
        mu[1] = 0
        z = sphere.sample_vmf(mu, kappa, Random(1, "p"))
        assert z.isfinite().all()
        assert torch.equal(z[[0, 2, 3]], alone[[0, 2, 3]])

    def test_no_host_loop(self):
        """The same operations whatever the numbers, and none that waits for a value."""

        class Operations(TorchDispatchMode):
            def __init__(self):
                super().__init__()
                self.names = []

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                self.names.append(str(function))
                return function(*args, **(kwargs or {}))

        seen = []
        for rows, d, kappa, seed in ((3, 512, 50.0, 0), (3, 512, 50.0, 1), (300, 512, 50.0, 0), (7, 10, 1e5, 3)):
            mu, random = Random(0, "mu").normal(rows, d), Random(seed, "p")
            with Operations() as operations:
                sphere.sample_vmf(mu, kappa, random)
            seen.append(operations.names)
        assert seen[0] == seen[1] == seen[2] == seen[3]
        assert len(seen[0]) > 10
        assert not any("_local_scalar_dense" in name or "nonzero" in name for name in seen[0])

    @pytest.mark.parametrize("d", [2, 3, 10])
    def test_the_rejection_step_matters(self, monkeypatch, d):
        """With one proposal a sample there is nothing to reject, and the test above would see it."""
        monkeypatch.setattr(sphere, "_PROPOSALS", 1)
        _, _, w = samples(d, 1000.0, 4000)
        assert stats.kstest(w, cosine_distribution(d, 1000.0)).pvalue < 1e-6

    @pytest.mark.parametrize("d", [2, 3, 4, 10, 50, 160, 512, 4096])
    def test_proposals_are_accepted_more_often_than_we_count_on(self, d):
        """So all of a row's proposals fail less than once in 10^25 rows."""
        rng, m = np.random.default_rng(0), d - 1
        e, u = rng.beta(m / 2, m / 2, 10_000), rng.uniform(size=10_000)
        for kappa in (0, 0.1, 1, 10, 100, 1e3, 1e4, 1e5):
            c = math.sqrt(4 * kappa**2 + m**2)
            a, b = (m + 2 * kappa + c) / 4, m / (2 * kappa + c)
            t = 2 * a * b / (1 - (1 - b) * e)
            accepted = m * np.log(t) - t + 4 * a * b / (1 + b) - m * math.log(m) >= np.log(u)
            assert accepted.mean() > 0.6
        assert 0.4**sphere._PROPOSALS < 1e-25


def frame_across(direction: np.ndarray) -> np.ndarray:
    """A unit vector orthogonal to the given one."""
    across = np.roll(direction, 1)
    across = across - (across @ direction) * direction
    return across / np.linalg.norm(across)


def test_rows_that_would_take_minutes_to_compile_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(kernels, "usable", lambda v: True)
    assert sphere._in_kernels(torch.empty(1, 1 << 15))
    assert not sphere._in_kernels(torch.empty(1, (1 << 15) + 1))
    assert not sphere._in_kernels(torch.empty(8))
