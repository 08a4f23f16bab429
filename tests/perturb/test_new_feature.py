"""Add and minus new feature."""

import pytest
import torch

from tests.perturb.helpers import make, moved, network, scene


@pytest.mark.parametrize(("rows", "new_rows"), [(8, 8), (8, 3), (3, 8)])
@pytest.mark.parametrize(("variant", "sign"), [("add_new", 1), ("minus_new", -1)])
@pytest.mark.parametrize("lam", [0.5, 2.0])
def test_against_a_loop(variant, sign, rows, new_rows, lam):
    replay, new = scene(network(), rows, new_rows)
    f = make(f"{variant}:lambda={lam}")(replay, new)
    n = torch.stack([sign * new.features[i % new_rows] for i in range(rows)]).detach()
    torch.testing.assert_close(f, moved(replay.features, n, replay.old, lam), rtol=1e-4, atol=1e-5)
