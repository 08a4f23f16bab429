import pytest
import torch

from moca.bench import measure
from moca.bench.measure import Timing, count_work, time_steps
from moca.bench.workload import in_second_task, run_settings

CPU = torch.device("cpu")


def convolution(images, inputs, outputs, side, kernel):
    return 2 * images * inputs * outputs * side**2 * kernel**2


def encoder_forward(images, width):
    """The convolutions of ResNet-18 on 32 x 32 images, the stem's first."""
    layers = [convolution(images, 3, width, 32, 3)]
    before = width
    for stage, side in enumerate((32, 16, 8, 4)):
        after = width * 2**stage
        layers.append(convolution(images, before, after, side, 3))
        layers += [convolution(images, after, after, side, 3)] * 3
        if before != after:
            layers.append(convolution(images, before, after, side, 1))
        before = after
    return layers


def trained(images, width):
    """Forward, gradients of the weights and of the inputs, which for the stem are not needed."""
    stem, *others = encoder_forward(images, width)
    return 2 * stem + 3 * sum(others)


def head(images, width):
    return 2 * images * 8 * width * 100


@pytest.mark.parametrize(("method", "draws"), [("er", 1), ("er+gaussian", 1), ("er_ace", 1), ("derpp", 2)])
def test_work_of_a_step_in_closed_form(make_settings, stream, method, draws):
    work = count_work(in_second_task(run_settings(make_settings(), method, "eager"), stream))
    images = 4 + 4 * draws
    assert work.images == images
    assert work.flops == trained(images, 4) + 3 * head(images, 4)


def test_wap_adds_a_training_pass_of_the_encoder_and_a_forward_pass(make_settings, stream):
    er, wap = (
        count_work(in_second_task(run_settings(make_settings(), method, "eager"), stream))
        for method in ("er", "er+wap")
    )
    assert wap.images == er.images
    inner = trained(4, 4) + 2 * head(4, 4)  # no gradient of the class vectors
    known = inner + sum(encoder_forward(4, 4))
    assert known <= wap.flops - er.flops < 1.03 * known, "the sums of BatchNorm weighted by row are products here"


def test_runs_take_turns_and_time_is_shared_among_them(monkeypatch):
    clock, calls = [0.0], []
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])

    def run(name, seconds):
        def step():
            calls.append(name)
            clock[0] += seconds

        return step

    timing = time_steps([run("a", 0.001), run("b", 0.003)], CPU, warm_up=2, steps=5, blocks=3)
    assert "".join(calls) == "ab" * (2 + 5 * 3)
    assert timing.steps == 5
    assert timing.blocks == pytest.approx((2.0, 2.0, 2.0)), "milliseconds a step and run"


def test_one_slow_block_does_not_move_the_median():
    assert Timing((1.0, 1.1, 50.0), steps=3).median == 1.1
