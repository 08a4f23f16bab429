"""Estimates: steps times measured times, in closed form."""

import json
from types import SimpleNamespace

import pytest

from moca.recipes.cells import cells
from moca.recipes.cost import _ER, Pace
from moca.recipes.experiment import experiment


def run_of(name):
    return experiment(next(cell for cell in cells() if cell.id == name)).run


def result(run, seconds, steps, packed=1, folder="here", device="NVIDIA H200"):
    folder = SimpleNamespace(parent=folder)
    return SimpleNamespace(
        settings=run, seconds=seconds, steps=steps, folder=folder, environment={"device": device, "packed": packed}
    )


@pytest.fixture
def benchmark(tmp_path):
    def cell(method, runs, ms, way="captured"):
        return {"method": method, "way": way, "runs": runs, "ms": ms and {"median": ms}}

    timed = [
        cell("er", 8, 1.0),
        cell("er", 1, 5.0),
        cell("er+wap", 8, 2.0),
        cell("derpp", 8, 3.0),
        cell("mir", 8, None),
        cell("er", 1, 15.0, "eager"),
        cell("gem", 1, 50.0, "eager"),
    ]
    told = {
        "date": "2026-02",
        "hardware": {"device": "cuda"},
        "settings": {"width": 64, "batch": 32},
        "cells": timed,
    }
    (tmp_path / "bench_a.json").write_text(json.dumps(told))
    older = {"date": "2026-01", "cells": [cell("er", 8, 9.0), cell("derpp", 9, 3.0)]}
    (tmp_path / "bench_b.json").write_text(json.dumps(told | older))
    (tmp_path / "bench_newer.json").write_text(json.dumps(told | {"date": "2026-03", "cells": [cell("er", 1, 8.0)]}))
    (tmp_path / "bench_broken.json").write_text("{")
    (tmp_path / "bench_other.json").write_text(json.dumps({"cells": 3}))
    (tmp_path / "bench_cpu.json").write_text(
        json.dumps(told | {"hardware": {"device": "cpu"}, "cells": [cell("er", 9, 77)]})
    )
    return tmp_path


def test_by_benchmarks_alone(benchmark):
    pace = Pace([], benchmark)
    assert pace.seconds(run_of("t2-cifar100-er-none-m500"), 1000) == pytest.approx(1.0)
    assert pace.seconds(run_of("t2-cifar100-er-wap-m500"), 1000) == pytest.approx(2.0)
    assert pace.seconds(run_of("t2-cifar100-derpp-wap-m500"), 1000) == pytest.approx(6.0)
    assert pace.seconds(run_of("t2-cifar100-icarl-none-m500"), 1000) == pytest.approx(1.0)
    assert pace.seconds(run_of("t2-tinyimagenet-er-none-m500"), 1000) == pytest.approx(4.0)
    assert Pace().seconds(run_of("t2-cifar100-er-none-m500"), 1000) == pytest.approx(1000 * _ER)
    assert pace.benchmarked and not Pace().benchmarked


def test_what_always_runs_eagerly_is_timed_eagerly(benchmark):
    assert Pace([], benchmark).seconds(run_of("t2-cifar100-gem-none-m200"), 1000) == pytest.approx(50.0)
    assert Pace().seconds(run_of("t2-cifar100-gem-none-m200"), 1000) == pytest.approx(1000 * _ER), "never timed"


def test_put_right_by_runs_whatever_was_packed_with_them(benchmark):
    er, wap = run_of("t2-cifar100-er-none-m500"), run_of("t2-cifar100-er-wap-m500")
    packed = [result(run, 6.0, 1000, packed=2) for run in (er, wap)]  # 6 s for both, by benchmarks 3 s
    pace = Pace(packed, benchmark)
    assert "corrected by 2 finished runs" in pace.how
    assert pace.seconds(er, 1000) == pytest.approx(2.0)
    assert pace.seconds(wap, 1000) == pytest.approx(4.0)
    assert pace.seconds(run_of("t2-cifar100-derpp-none-m500"), 1000) == pytest.approx(6.0)
    assert pace.seconds(run_of("t3-cifar10-er-none-m20"), 1000) == pytest.approx(1.0)


def test_runs_of_another_precision_or_on_a_cpu_say_nothing(benchmark):
    er = run_of("t2-cifar100-er-none-m500")
    precise = er.model_copy(update={"precision": "fp32"})
    odd = [
        result(er, 99.0, 1, folder="mixed"),
        result(precise, 99.0, 1, folder="mixed"),
        result(er, 99.0, 1, device="x86_64"),
    ]
    assert Pace(odd, benchmark).seconds(er, 1000) == pytest.approx(1.0)
