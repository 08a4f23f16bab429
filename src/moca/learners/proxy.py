"""Prototype replay: PASS without noise; each old class is replayed as its mean feature.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398 (the baseline of its proxy setting).
"""

from moca.learners.pass_ import PASS


class Proxy(PASS):
    """PASS whose prototypes are moved only by a perturbation."""

    noise = "none"
