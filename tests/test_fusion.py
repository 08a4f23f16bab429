import shutil

import pytest
import torch

from moca import sphere
from moca.fusion import fusing, shared
from moca.memory import Reservoir
from moca.models import ResNet18
from moca.random import Random

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's compiler warns about itself
    pytest.mark.skipif(not shutil.which("g++"), reason="on the CPU torch.compile needs a C++ compiler"),
]


def test_fused_numbers_are_the_plain_ones():
    plain, compiled = Random(1, "x"), Random(1, "x")
    with fusing():
        bits, normal = compiled.bits(5), compiled.normal(9, 5)
    assert torch.equal(bits, plain.bits(5))
    torch.testing.assert_close(normal, plain.normal(9, 5), atol=1e-6, rtol=1e-6)
    h, n = torch.randn(4, 8), torch.randn(4, 8)
    with fusing():
        f = sphere.displace(h, n, 2.0)
    torch.testing.assert_close(f, sphere.displace(h, n, 2.0))


def test_fused_reservoir_keeps_the_same_samples():
    plain, compiled = Reservoir(7, Random(3, "x")), Reservoir(7, Random(3, "x"))
    for _ in range(5):
        with fusing():
            slots = compiled.slots(4)
        assert torch.equal(slots, plain.slots(4))


def test_modules_share_a_compilation_only_if_they_compute_the_same():
    one, twin = ResNet18((3, 84, 84), width=2), ResNet18((3, 84, 84), width=2)
    pooled, wider = ResNet18((3, 84, 84), width=2, pool=4), ResNet18((3, 84, 84), width=3)
    assert shared(one) is shared(twin)
    assert len({shared(one), shared(pooled), shared(wider), shared(one.eval())}) == 4
