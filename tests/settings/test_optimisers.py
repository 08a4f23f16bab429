"""Optimisers and schedules: what is asked for, and the learning rate of every epoch in closed form."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moca.settings import Run, validate
from moca.settings.optimisers import SCHEDULES


def schedule(spec):
    return validate(Run, {"schedule": spec}).schedule


def optimiser(spec):
    return validate(Run, {"optimiser": spec}).optimiser


@given(epoch=st.integers(0, 1000), epochs=st.integers(1, 1000))
def test_constant(epoch, epochs):
    assert schedule("constant").factor(epoch, epochs) == 1.0


def test_the_paper_s_steps():
    """The first 35 epochs at the full rate, the next ten at a tenth, the last five at a hundredth."""
    rates = [schedule("steps:at=35,45,by=0.1").factor(epoch, 50) for epoch in range(50)]
    assert rates == pytest.approx([1.0] * 35 + [0.1] * 10 + [0.01] * 5)
    assert schedule("steps") == schedule("steps:at=35,45,by=0.1")


@given(at=st.lists(st.integers(0, 20), max_size=5), by=st.floats(0.01, 1), epoch=st.integers(0, 25))
def test_steps_against_a_loop(at, by, epoch):
    expected = 1.0
    for end in at:
        if epoch >= end:
            expected *= by
    made = schedule({"name": "steps", "at": at, "by": by})
    assert made.factor(epoch, 26) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("final", [0.0, 0.1, 1.0])
def test_cosine_begins_at_one_and_falls_towards_its_end(final):
    rates = [schedule(f"cosine:final={final}").factor(epoch, 8) for epoch in range(9)]
    assert rates[0] == pytest.approx(1.0)
    assert rates[4] == pytest.approx((1 + final) / 2), "half way"
    assert rates[8] == pytest.approx(final), "after the last epoch"
    assert rates[2] == pytest.approx(final + (1 - final) * (2 + math.sqrt(2)) / 4)
    assert all(a >= b for a, b in pairwise(rates))
    for epoch, rate in enumerate(rates):
        mirrored = rates[8 - epoch]
        assert rate + mirrored == pytest.approx(1 + final), "point-symmetric about the middle"


@pytest.mark.parametrize("cls", SCHEDULES)
def test_a_schedule_begins_anew_with_every_task_unless_told_otherwise(cls):
    assert cls().anew
    assert not schedule(f"{cls().name}:anew=false").anew


def test_optimisers():
    sgd = optimiser("sgd:momentum=0.9,nesterov=true,weight_decay=5e-4")
    assert (sgd.momentum, sgd.nesterov, sgd.weight_decay, sgd.anew) == (0.9, True, 5e-4, True)
    adam = optimiser("adam:anew=false")
    assert (adam.beta1, adam.beta2, adam.eps, adam.weight_decay, adam.anew) == (0.9, 0.999, 1e-8, 0.0, False)
    assert optimiser("adamw").weight_decay == 0.01, "as in torch"
    assert optimiser("adamw").name == "adamw"
