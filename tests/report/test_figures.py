from xml.etree import ElementTree

import numpy as np
import pytest

from moca.report.features import Panel
from moca.report.figures import accuracy_curves, accuracy_matrices, feature_plane, final_accuracies
from moca.report.palette import BASELINE, method_colour, method_dash, method_marker
from moca.report.svg import folded
from tests.report.made_results import comparison, matrix, result

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def fills(svg, tag="path"):
    root = ElementTree.fromstring(svg)
    return [e.get("style", "") for e in root.iter(SVG + tag)]


@pytest.fixture
def rows(tmp_path):
    return comparison(tmp_path, {"er": [0.5, 0.7], "er+wap": [0.8, 0.6]}).rows


@pytest.mark.parametrize("draw", [accuracy_curves, accuracy_matrices, final_accuracies])
def test_figures_are_bare_svg_with_text_as_text(draw, rows):
    svg = draw(rows)
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img" and root.get("aria-label")
    assert svg.startswith("<svg")
    assert {"er", "er+wap"} <= set(texts(svg))
    assert not list(root.iter(f"{SVG}metadata")) and not list(root.iter(f"{SVG}style"))
    assert not list(root.iter(f"{SVG}image"))
    assert "DejaVu" not in svg
    assert len(svg) < 30_000
    assert draw(rows) == svg


def test_first_method_is_grey_and_all_looks_differ():
    assert method_colour(0) == BASELINE
    looks = {(method_colour(i), method_dash(i), method_marker(i)) for i in range(20)}
    assert len(looks) == 20


def test_matrix_holds_the_mean_over_seeds_of_learned_tasks_only(tmp_path):
    a = [[0.1, 0.1], [1.0, 0.11], [0.5, 0.9]]
    b = [[0.1, 0.1], [0.9, 0.11], [0.3, 0.8]]
    row = comparison(tmp_path, {"er": [result(tmp_path, a), result(tmp_path, b, 1)]}).rows
    numbers = [t for t in texts(accuracy_matrices(row)) if t.isdigit()]
    assert sorted(numbers) == sorted(["1", "2", "1", "2", "95", "40", "85"])  # ticks, and the lower triangle


def test_joint_matrix_shows_every_task(tmp_path):
    rows = comparison(tmp_path, {"joint": [result(tmp_path, [[0.1] * 3, [0.91, 0.82, 0.73]])]}).rows
    assert {"91", "82", "73", "all"} <= set(texts(accuracy_matrices(rows)))


def test_long_names_break_between_options():
    assert folded("er+wap:lambda=1.5,steps=2 lr=0.03", 18) == ["er+wap:lambda=1.5,", "steps=2 lr=0.03"]
    assert folded("er", 18) == ["er"]
    assert "".join(folded("x" * 50, 18)) == "x" * 50 and max(map(len, folded("x" * 50, 18))) <= 18


def test_matrix_of_many_tasks_stays_small(tmp_path):
    rows = comparison(tmp_path, {"er": [result(tmp_path, matrix(0.5, 50), data="digits")]}).rows
    svg = accuracy_matrices(rows)
    assert len(svg) < 300_000
    assert "100" not in texts(svg)


def test_every_seed_is_a_dot(rows):
    dots = [s for s in fills(final_accuracies(rows), "use") if "stroke: #ffffff" in s]
    assert len(dots) == 4


def test_a_method_without_a_finished_run_is_named(tmp_path):
    broken = result(tmp_path, [[0.1, 0.1]], 0, "diverged")
    rows = comparison(tmp_path, {"er": [0.5], "er+vt": [broken]}).rows
    assert {"er+vt", "no run finished"} <= set(texts(final_accuracies(rows)))
    assert "er+vt" in texts(accuracy_curves(rows))
    assert "er+vt" not in texts(accuracy_matrices(rows))


@pytest.mark.parametrize(
    "label", ["$x^", "a_b $\\alpha$", "<&>'\"", "学习 \N{GRINNING FACE}", "_hidden", "n\nl\x00", "x" * 500]
)
def test_any_label_can_be_drawn(tmp_path, label):
    rows = comparison(tmp_path, {label: [0.5, 0.6], "other": [0.7, 0.6]}).rows
    for draw in (accuracy_curves, accuracy_matrices, final_accuracies):
        shown = [t.lstrip("\u200b").rstrip("…") for t in texts(draw(rows))]
        assert any(len(t) > 1 and label.replace("\n", " ").replace("\x00", " ").startswith(t) for t in shown)


def plane(classes=4, each=5, title="er"):
    angles = np.repeat(np.arange(classes) * 2 * np.pi / classes, each)
    points = np.stack([np.cos(angles), np.sin(angles)], 1)
    labels = np.repeat(np.arange(classes), each)
    return Panel(title, points, labels, labels < classes // 2, points[::each], tuple("abcdefghijkl"[:classes]))


def test_feature_plane_tells_old_from_new():
    svg = feature_plane([plane(), plane(title="er+wap")])
    assert {"er", "er+wap", "old class", "new class", "a", "b", "c", "d"} <= set(texts(svg))
    filled = [s for s in fills(svg, "use") if "fill-opacity: 0.65" in s]
    assert len(filled) == 2 * 2 * 5, "old samples are filled, new ones open"


def test_feature_plane_of_many_points_stays_small():
    assert len(feature_plane([plane(4, 5000)])) < 500_000
