"""Benchmarks so small that they take seconds."""

import pytest

from moca.bench.workload import noise_stream
from moca.settings import Bench, validate

SMALL = {"device": "cpu", "width": 4, "batch": 4, "threads": 1, "steps": 1, "blocks": 2}


@pytest.fixture(scope="session")
def make_settings():
    return lambda **settings: validate(Bench, SMALL | settings)


@pytest.fixture(scope="session")
def stream():
    return noise_stream(SMALL["batch"])
