import shutil

import pytest

from moca.fusion import shared
from moca.models import ResNet18

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's compiler warns about itself
    pytest.mark.skipif(not shutil.which("g++"), reason="on the CPU torch.compile needs a C++ compiler"),
]


def test_modules_share_a_compilation_only_if_they_compute_the_same():
    one, twin = ResNet18((3, 84, 84), width=2), ResNet18((3, 84, 84), width=2)
    pooled, wider = ResNet18((3, 84, 84), width=2, pool=4), ResNet18((3, 84, 84), width=3)
    assert shared(one) is shared(twin)
    assert len({shared(one), shared(pooled), shared(wider), shared(one.eval())}) == 4
