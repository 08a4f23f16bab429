"""SplitMix64 against plain Python integers; distributions against scipy's, with fixed seeds."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from moca.random import Random, derive, seeded

MASK = (1 << 64) - 1


def splitmix64(key: int, count: int) -> list[int]:
    """The published algorithm, one number at a time, on unsigned integers."""
    state, numbers = key & MASK, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        numbers.append(z ^ (z >> 31))
    return numbers


def unsigned(x: torch.Tensor) -> list[int]:
    return [v & MASK for v in x.flatten().tolist()]


def test_the_twin_is_splitmix64():
    # The first numbers of the reference implementation for seed 1234567.
    assert splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(seed=st.integers(0, 2**70), before=st.integers(0, 40), count=st.integers(1, 40))
def test_bits_are_splitmix64s(seed, before, count):
    random = Random(seed, "anything")
    random.bits(before)
    assert unsigned(random.bits(count)) == splitmix64(derive(seed, "anything"), before + count)[before:]


def test_the_sequence_does_not_depend_on_how_it_is_cut():
    whole, parts = Random(3, "p"), Random(3, "p")
    assert torch.equal(whole.bits(4, 5).flatten(), torch.cat([parts.bits(n) for n in (1, 0, 7, 12)]))
    assert whole.count == parts.count == 20


def test_derive_is_known_and_separates_seed_from_purpose():
    # blake2b("1/data") read as a little-endian number: written down so that runs stay repeatable between versions.
    assert derive(1, "data") == int.from_bytes(bytes.fromhex("3a3f229ed88456b5"), "little")
    pairs = [(s, p) for s in range(50) for p in ("classes", "init", "data", "augment", "memory", "perturb", "1/data")]
    assert len({derive(*pair) for pair in pairs}) == len(pairs)


def test_purposes_and_seeds_are_independent():
    purposes = ("data", "augment", "memory", "perturb")
    sequences = [Random(s, p).uniform(4000, dtype=torch.float64).numpy() for s in (0, 1) for p in purposes]
    for a, b in itertools.combinations(sequences, 2):
        assert stats.pearsonr(a, b).pvalue > 1e-4
        # A sequence that merely runs behind another one shares numbers with it.
        assert not set(a) & set(b)


def test_state_dict_resumes():
    random = Random(5, "p")
    random.uniform(17)
    state = random.state_dict()
    first = random.normal(9)
    assert not torch.equal(random.normal(9), first)
    other = Random(5, "p")
    other.load_state_dict(state)
    assert torch.equal(other.normal(9), first)
    random.load_state_dict(state)
    assert torch.equal(random.normal(9), first)


def test_state_dict_is_a_copy():
    random = Random(5, "p")
    state = random.state_dict()
    random.bits(3)
    assert state["count"] == 0
    random.load_state_dict(state)
    random.bits(3)
    assert state["count"] == 0


def test_to_goes_on_unchanged():
    stayed, moved = Random(5, "p"), Random(5, "p")
    stayed.bits(3), moved.bits(3)
    moved.to("cpu")
    assert torch.equal(stayed.bits(4), moved.bits(4))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_sequence():
    here, there = Random(5, "p"), Random(5, "p")
    here.bits(3), there.bits(3)
    there.to("cuda")
    assert torch.equal(here.bits(1000), there.bits(1000).cpu())
    assert torch.equal(here.uniform(1000, dtype=torch.float64), there.uniform(1000, dtype=torch.float64).cpu())


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float32, 23), (torch.float64, 52)])
def test_uniform_is_the_middle_of_a_cell(dtype, digits):
    u = Random(2, "p").uniform(100, dtype=dtype)
    assert u.dtype == dtype
    cells = [b >> (64 - digits) for b in splitmix64(derive(2, "p"), 100)]
    assert u.double().tolist() == [(c + 0.5) / 2**digits for c in cells]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bits", [0, -1])
def test_uniform_never_reaches_an_end(monkeypatch, dtype, bits):
    random = Random(2, "p")
    monkeypatch.setattr(random, "bits", lambda *shape: torch.full(shape, bits))
    u = random.uniform(1, dtype=dtype)
    assert 0 < u < 1
    assert u.log().isfinite() and (1 - u).log().isfinite()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_distribution(dtype):
    u = Random(1, "p").uniform(100, 1000, dtype=dtype)
    assert u.shape == (100, 1000)
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 2, 2), (0,), (1,)])
def test_normal_is_box_and_mullers(shape):
    n = int(np.prod(shape))
    half = (n + 1) // 2
    u = Random(4, "p").uniform(2 * half).double().numpy()
    radius, angle = np.sqrt(-2 * np.log(u[:half])), 2 * np.pi * u[half:]
    naive = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n].reshape(shape)
    np.testing.assert_allclose(Random(4, "p").normal(*shape).numpy(), naive, atol=3e-6)


def test_normal_distribution():
    x = Random(1, "p").normal(100_000).double().numpy()
    assert stats.kstest(x, "norm").pvalue > 1e-3
    # Standard errors of the first four moments of 100 000 standard normal numbers.
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - moment) < 4 * np.sqrt(variance / len(x))
    # The two halves come from the same radii: uncorrelated all the same.
    assert stats.pearsonr(x[:50_000], x[50_000:]).pvalue > 1e-3


def test_below_is_uniform_and_in_range():
    bound = torch.tensor([1, 2, 7, 10]).repeat(5000, 1)
    drawn = Random(1, "p").below(bound)
    assert drawn.dtype == torch.int64 and drawn.shape == bound.shape
    for column, n in zip(drawn.T, (1, 2, 7, 10), strict=True):
        counts = torch.bincount(column)
        assert len(counts) == n
        assert n == 1 or stats.chisquare(counts.numpy()).pvalue > 1e-3


@settings(deadline=None, derandomize=True, max_examples=100)
@given(bound=st.integers(1, 2**62))
def test_below_stays_below_at_the_largest_number(bound):
    random = Random(0, "p")
    random.bits = lambda *shape: torch.full(shape, -1)
    assert random.below(torch.tensor([bound])).item() < bound


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 1000), n=st.integers(0, 200))
def test_permutation_holds_every_number_once(seed, n):
    assert sorted(Random(seed, "p").permutation(n).tolist()) == list(range(n))


def test_permutation_is_uniform():
    random = Random(0, "p")
    counts = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(4800):
        counts[tuple(random.permutation(4).tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_threads_that_seed_torch_do_not_mix_up_their_numbers():
    def drawn(seed: int, meanwhile=lambda: None) -> list[float]:
        with seeded(seed):
            first = torch.rand(())
            meanwhile()
            return [first.item(), torch.rand(()).item()]

    expected = [drawn(0), drawn(1)]
    with ThreadPoolExecutor(1) as another:
        others = []

        def start_another():
            others.append(another.submit(drawn, 1))
            with pytest.raises(TimeoutError):  # it waits
                others[0].result(timeout=0.05)

        assert [drawn(0, start_another), others[0].result()] == expected
