import itertools
import math
from importlib.resources import files

import numpy as np
import pytest

from moca.report.facets import MOST, Facet, colours, facets, families
from moca.report.figures import (
    accuracy_curves,
    accuracy_matrices,
    accuracy_panels,
    against,
    save_figures,
    stream_curves,
)
from moca.report.figures import final_accuracies as print_dots
from moca.report.labels import folded
from moca.report.palette import LOOKS, class_colours, colours_of
from moca.report.plots import curves, final_accuracies, matrix, over_stream, sweep
from moca.report.printing import COLUMN
from moca.report.sweeps import sweeps
from moca.report.table import UNKNOWN
from tests.report.made_results import comparison, label_of, result
from tests.report.made_results import matrix as matrix_of


def setting(tmp_path, methods):
    (made,) = comparison(tmp_path, methods).settings
    return made


@pytest.fixture
def facet(tmp_path):
    (made,) = facets(setting(tmp_path, {"er": [0.5, 0.7], "er+wap": [0.8, 0.6]}))
    return made


def _linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def _luminance(colour):
    return _linear(colour) @ [0.2126, 0.7152, 0.0722]


def test_colours_stand_out_from_the_page_and_none_comes_twice():
    css = files("moca.report").joinpath("page.css").read_text()
    pages = "#ffffff", "#14171b"
    assert "--page: #fff;" in css and f"--page: {pages[1]};" in css
    for page, own in zip(
        ("#ffffff", "#14171b"), zip(*((look.light, look.dark) for look in LOOKS), strict=True), strict=True
    ):
        assert len(set(own)) == len(LOOKS) == 8
        for colour in own:
            high, low = sorted((_luminance(page), _luminance(colour)), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, page)
    assert len({look.marker for look in LOOKS}) == len({look.symbol for look in LOOKS}) == 8
    assert class_colours(0, old=True) != class_colours(0, old=False)
    of_four = colours_of({2: False, 0: True, 3: False, 1: True})
    assert of_four == {c: class_colours(c % 2, old=c < 2) for c in range(4)}


VISIONS = {
    "usual": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""How linear RGB looks without one of the three kinds of cones, after Machado, Oliveira and Fernandes (2009)."""


@pytest.mark.parametrize("seen", VISIONS)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_colours_differ_for_every_kind_of_colour_vision(seen, page):
    white = np.array([0.9505, 1.0, 1.089])
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])

    def lab(colour):
        x, y, z = np.cbrt(to_xyz @ np.clip(np.array(VISIONS[seen]) @ _linear(colour), 0, 1) / white)
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    every = [lab(getattr(look, page)) for look in LOOKS]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(every, 2)) > 12


def test_few_methods_share_one_figure(tmp_path):
    made = setting(tmp_path, {f"m{i}": [result(tmp_path, 0.5, lr=0.1 + i)] for i in range(8)})
    assert [len(facet.rows) for facet in facets(made)] == [8]
    assert colours(made) == list(range(8))


def test_many_methods_are_shared_out_by_learner(tmp_path):
    perturbs = ("gaussian", "vt", "wap", "vmf", "doa_new", "doa_old", "add_new", "minus_new")
    runs = {"er": [0.5], "derpp": [0.6], **{f"er+{p}": [0.5] for p in perturbs}, "derpp+wap": [0.7]}
    made = setting(tmp_path, runs)
    shared = {facet.title: [row.label for row in facet.rows] for facet in facets(made)}
    assert list(shared) == ["Without perturbation", "Perturbations of er (1 of 2)", "Perturbations of er (2 of 2)",
                            "Perturbations of derpp"]  # fmt: skip
    assert shared["Without perturbation"] == ["er", "derpp"]
    assert shared["Perturbations of derpp"] == ["derpp", "derpp+wap"]
    both = [shared[f"Perturbations of er ({i} of 2)"] for i in (1, 2)]
    assert all(labels[0] == "er" and len(labels) <= MOST for labels in both)
    assert sorted(both[0][1:] + both[1][1:]) == sorted(f"er+{p}" for p in perturbs)
    assert set(colours(made)) == {None}, "a colour would mean several methods"


def test_methods_with_the_same_memory_share_a_figure(tmp_path):
    learners = ("er", "derpp", "mir", "agem", "er_ace")
    runs = {
        f"{name} {size}": [result(tmp_path, 0.5, learner=name, memory=size)] for name in learners for size in (20, 50)
    }
    made = facets(setting(tmp_path, runs))
    assert [{str(row.run.memory) for row in facet.rows} for facet in made] == [{"20"}, {"50"}]


def test_every_method_is_in_a_figure(tmp_path):
    runs = {f"er+wap lr={lr}": [result(tmp_path, 0.5, perturb="wap", lr=lr)] for lr in np.arange(1, 21) / 10}
    made = setting(tmp_path, {**runs, "er": [0.3]})
    shown = {row.label for facet in facets(made) for row in facet.rows}
    assert shown == {row.label for row in made.rows}
    assert all(len(facet.rows) <= MOST for facet in facets(made))


def test_curves_are_means_over_seeds_with_a_band_of_one_deviation(tmp_path):
    a, b = ([[0.1, 0.1], [1.0, 0.1], [0.5, 0.9]], [[0.1, 0.1], [0.8, 0.1], [0.3, 0.7]])
    made = setting(tmp_path, {"er": [result(tmp_path, a), result(tmp_path, b, 1)]})
    band, line = curves(facets(made)[0], "test images")["data"]
    assert (line["x"], line["y"]) == ([1, 2], [90.0, 60.0])  # 100 and 80; 70 and 50
    assert line["legendgroup"] == band["legendgroup"], "they are hidden together"
    assert band["y"] == pytest.approx([90 + 200**0.5, 60 + 200**0.5, 60 - 200**0.5, 90 - 200**0.5], abs=0.01)
    assert line["customdata"] == [" ± 14.14 % (n = 2)"] * 2


def test_every_seed_is_a_dot_and_the_mean_a_stroke(facet):
    traces = final_accuracies(facet, "test images")["data"]
    assert [trace["x"] for trace in traces] == [[50.0, 70.0], [60.0], [80.0, 60.0], [70.0]]
    assert traces[1]["error_x"]["array"] == pytest.approx([200**0.5], abs=0.001)


def test_the_name_of_a_method_is_above_its_stroke_and_below_the_one_before(tmp_path):
    margins, text = 60, 18
    for count in (1, 3, 8):
        made = setting(tmp_path, {f"er lr={i}": [result(tmp_path, 0.5, lr=i + 0.1)] for i in range(count)})
        plot = final_accuracies(facets(made)[0], "test images")
        stroke = 0.7 * plot["data"][1]["marker"]["size"]  # as far as plotly draws it to either side of its line
        last, first = plot["layout"]["yaxis"]["range"]
        row = (plot["height"] - margins) / (last - first)
        for name in plot["layout"]["annotations"]:
            assert name["yanchor"] == "bottom" and stroke + 2 < name["yshift"] < row - stroke - text
        assert -first * row > name["yshift"] + text, "the first has room, too"


STRENGTHS = {"gaussian": (2, 0.5, 1), "wap": (4, 1, 3), "vt": (1, 2)}


def with_strengths(tmp_path):
    chosen = [f"{name}:lambda={value}" for name, values in STRENGTHS.items() for value in values]
    runs = {f"er+{one}": [result(tmp_path, float(one.split("=")[1]) / 10, perturb=one)] for one in chosen}
    return {"er": [0.3, 0.4], **runs}


def test_methods_that_differ_in_a_number_are_a_curve_and_their_learner_a_level(tmp_path):
    (found,) = sweeps(setting(tmp_path, with_strengths(tmp_path)))
    assert found.name == "lambda" and not found.logarithmic
    assert {str(line.name): [value for value, _ in line.points] for line in found.lines} == {
        "er+gaussian": [0.5, 1, 2],
        "er+wap": [1, 3, 4],
    }, "two values make no curve"
    lines = [trace for trace in sweep(found, "test images")["data"] if trace.get("showlegend", True)]
    assert [(trace["name"], trace["x"], trace["y"]) for trace in lines] == [
        ("er", [0.5, 4.0], [35.0, 35.0]),
        ("er+gaussian", [0.5, 1.0, 2.0], [5.0, 10.0, 20.0]),
        ("er+wap", [1.0, 3.0, 4.0], [10.0, 30.0, 40.0]),
    ]
    assert lines[0]["customdata"] == [" ± 7.07 % (n = 2)"] * 2


def test_of_several_learners_one_with_a_single_curve_has_its_colour(tmp_path):
    several = {"er": ("gaussian", "wap"), "derpp": ("wap",), "mir": ()}
    runs = {f"{name}+{perturb} {value}": [result(tmp_path, 0.5, learner=name, perturb=f"{perturb}:lambda={value}")]
            for name, perturbs in several.items() for perturb in perturbs for value in (1, 2, 3)}  # fmt: skip
    (found,) = sweeps(setting(tmp_path, {name: [0.5] for name in several} | runs))
    assert [row.label for row in found.levels] == ["er", "derpp"]
    assert [str(line.name) for line in found.lines] == ["er+gaussian", "er+wap", "derpp+wap"]
    assert found.colours == ([0, 3], [1, 2, 3])
    levels_and_lines = [line.get_color() for line in against(found, "test images").axes[0].get_lines()]
    assert levels_and_lines == [LOOKS[place].light for place in (0, 3, 1, 2, 3)]
    shown = [trace for trace in sweep(found, "test images")["data"] if trace.get("showlegend", True)]
    assert [trace["meta"]["colour"] for trace in shown] == [0, 3, 1, 2, 3]
    assert len({trace["legendgroup"] for trace in shown}) == 5, "each is hidden alone"


def test_angles_have_their_unit(tmp_path):
    runs = {f"er {angle}": [result(tmp_path, 0.5, perturb=f"wap:fixed_angle={angle}")] for angle in (15, 30, 45)}
    (found,) = sweeps(setting(tmp_path, runs))
    assert against(found, "test images").axes[0].get_xlabel() == "fixed_angle (degrees)"
    assert sweep(found, "test images")["layout"]["xaxis"]["title"]["text"] == "fixed_angle (degrees)"


def test_what_else_differs_makes_another_curve_or_none(tmp_path):
    sizes = {f"{perturb} {size}": [result(tmp_path, 0.5, perturb=perturb, memory=size, lr=lr)]
             for perturb, lr in (("none", 0.1), ("vt", 0.2)) for size in (20, 100, 500)}  # fmt: skip
    mixed = {f"other {n}": [result(tmp_path, 0.5, learner="derpp", lr=n, batch=n)] for n in (1, 2, 3)}
    (found,) = sweeps(setting(tmp_path, sizes | mixed))
    assert (found.name, found.logarithmic, found.levels) == ("memory", True, [])
    assert [str(line.name) for line in found.lines] == ["er lr=0.1", "er+vt lr=0.2"]


def test_many_curves_are_shared_out(tmp_path):
    learners = ("er", "derpp", "mir", "agem", "er_ace", "ssil", "gss", "reweight", "focal")
    runs = {f"{name} {lr}": [result(tmp_path, 0.5, learner=name, lr=lr)] for name in learners for lr in (0.1, 0.2, 0.3)}
    found = sweeps(setting(tmp_path, runs))
    assert [len(one.lines) for one in found] == [5, 4], f"no more than {MOST} in a figure"


def test_matrix_holds_the_mean_over_seeds_of_learned_tasks_only(tmp_path):
    a = [[0.1, 0.1], [1.0, 0.11], [0.5, 0.9]]
    b = [[0.1, 0.1], [0.9, 0.11], [0.3, 0.8]]
    runs = [result(tmp_path, a), result(tmp_path, b, 1)]
    for run in runs:
        run.class_names, run.task_classes = ["cat", "dog", "owl"], [2, 1]
    (trace,) = matrix(setting(tmp_path, {"er": runs}).rows[0])["data"]
    assert trace["z"] == [[95.0, None], [40.0, 85.0]]
    assert [told for _, told in trace["customdata"][1]] == [" (cat, dog)", " (owl)"]


def test_an_accuracy_unknown_in_one_seed_is_the_mean_of_the_others_on_the_page_and_in_print(tmp_path):
    unknown = [[0.1, 0.1], [math.nan, 0.1], [0.3, math.nan]]
    known = [[0.1, 0.1], [0.5, 0.1], [0.4, math.nan]]
    (row,) = setting(tmp_path, {"er": [result(tmp_path, unknown), result(tmp_path, known, 1)]}).rows
    (trace,) = matrix(row)["data"]
    assert trace["z"] == [[50.0, None], [35.0, None]]
    assert trace["customdata"][0][0][0] == " % (n = 1)" and trace["customdata"][1][0][0] == " ± 7.07 % (n = 2)"
    (axes,) = accuracy_matrices([row]).axes
    assert [text.get_text() for text in axes.texts] == ["50", "35", UNKNOWN]
    (page,) = curves(Facet("", [row]), "test images")["data"]
    (axes,) = accuracy_curves(Facet("", [row]), "test images").axes
    assert page["y"] == [50.0, None]
    assert list(axes.get_lines()[0].get_ydata()) == pytest.approx([50, math.nan], nan_ok=True)


@pytest.mark.parametrize(("methods", "down", "across"), [(3, 1, 3), (4, 1, 4), (5, 2, 3), (9, 3, 3)])
def test_matrices_fill_their_rows(tmp_path, methods, down, across):
    rows = setting(tmp_path, {f"m{i}": [result(tmp_path, 0.5, lr=0.1 + i)] for i in range(methods)}).rows
    figure = accuracy_matrices(rows)
    assert figure.axes[0].get_gridspec().get_geometry() == (down, across)
    assert figure.get_figwidth() <= 6.75


@pytest.mark.parametrize("tasks", [2, 5])
def test_the_name_above_a_matrix_is_not_broken_within_a_number(tmp_path, tasks):
    name = "er_ace+wap:lambda=2.0,fixed_angle=60.0,step_size=100.0"
    made = setting(
        tmp_path, {label: [result(tmp_path, matrix_of(0.5, tasks), lr=lr)] for lr, label in ((0.1, "er"), (0.2, name))}
    )
    figure = accuracy_matrices(made.rows)
    figure.draw_without_rendering()
    shown = figure.axes[1].get_title(loc="left")
    assert "fixed_angle=60.0," in shown and "step_size=100.0)" in shown
    assert figure.axes[1]._left_title.get_window_extent().x1 <= figure.bbox.width


def test_joint_matrix_shows_every_task(tmp_path):
    row = setting(tmp_path, {"joint": [result(tmp_path, [[0.1] * 3, [0.91, 0.82, 0.73]])]}).rows[0]
    (trace,) = matrix(row)["data"]
    assert (trace["z"], trace["y"]) == ([[91.0, 82.0, 73.0]], ["all"])
    (axes,) = accuracy_matrices([row]).axes
    assert [text.get_text() for text in axes.texts] == ["91", "82", "73"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["all"]


def test_a_method_that_learns_all_at_once_is_a_level_line(tmp_path):
    made = setting(tmp_path, {"joint": [result(tmp_path, [[0.1] * 3, [0.91, 0.82, 0.73]])]})
    (line,) = curves(facets(made)[0], "test images")["data"]
    assert line["x"] == [1, 3] and line["y"] == pytest.approx([82.0, 82.0])


def test_looks_on_the_way_are_drawn_where_there_are_any(tmp_path, facet):
    assert over_stream(facet, "test images") is None
    run = result(tmp_path, 0.5)
    run.over_stream = [[10, 0.25], [20, 0.5]]
    (line,) = over_stream(facets(setting(tmp_path, {"er": [run]}))[0], "test images")["data"]
    assert (line["x"], line["y"]) == ([10, 20], [25.0, 50.0])


JOINT = [[0.1] * 3, [0.91, 0.82, 0.73]]


def test_learners_with_several_methods_each_have_a_panel_each_in_print(tmp_path):
    runs = {"er": [0.5, 0.6], "er+gaussian": [0.6], "er+wap": [0.7], "derpp": [0.6], "derpp+wap": [0.2],
            "er_ace": [0.9], "joint": [result(tmp_path, JOINT, learner="joint")]}  # fmt: skip
    made = families(setting(tmp_path, runs))
    names = {"without perturbation": 0, "Gaussian": 1, "WAP": 2, "Joint training": 3}
    assert {one.title: [name for name, _, _ in one.methods] for one in made} == {
        "ER": ["without perturbation", "Gaussian", "WAP", "Joint training"],
        "DER++": ["without perturbation", "WAP", "Joint training"],
        "ER-ACE": ["without perturbation", "Joint training"],
    }
    assert all(place == names[name] for one in made for name, place, _ in one.methods), "one colour in all panels"
    figure = accuracy_panels(made, "test images")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["ER", "DER++", "ER-ACE"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1, "panels can be compared"
    lowest = min(float(min(line.get_ydata())) for line in figure.axes[1].get_lines())
    assert lowest == pytest.approx(20) and figure.axes[0].get_ylim()[0] <= 20
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["without perturbation", "Gaussian", "WAP", "Joint training"]


def test_a_method_without_perturbation_says_so_beside_its_options(tmp_path):
    runs = {f"{name} lr={lr}": [result(tmp_path, 0.5, lr=lr, learner=learner, perturb=perturb)]
            for name, learner, perturb in (("er", "er", "none"), ("er+wap", "er", "wap"),
                                           ("derpp", "derpp", "none"), ("derpp+wap", "derpp", "wap"))
            for lr in (0.1, 0.2)}  # fmt: skip
    names = ["without perturbation (lr=0.1)", "without perturbation (lr=0.2)", "WAP (lr=0.1)", "WAP (lr=0.2)"]
    assert [[name for name, _, _ in one.methods] for one in families(setting(tmp_path, runs))] == [names, names]


def test_other_methods_have_one_figure_as_before(tmp_path):
    def one(*labels):
        return families(setting(tmp_path, {label: [0.5] for label in labels}))

    assert one("er", "er+wap", "derpp", "er_ace") == [], "only one learner has several"
    assert one("er", "er+wap", "derpp", "derpp+wap") != []
    perturbs = ("gaussian", "vt", "wap", "vmf", "doa_new", "doa_old", "add_new", "minus_new")
    assert one(*(f"{learner}+{p}" for p in perturbs for learner in ("er", "derpp"))) != []
    assert one(*(f"{learner}{p}" for p in ("", *(f"+{p}" for p in perturbs)) for learner in ("er", "derpp"))) == []


def test_long_names_break_between_options():
    assert folded("er+wap:lambda=1.5,steps=2 lr=0.03", 18) == ["er+wap:lambda=1.5,", "steps=2 lr=0.03"]
    assert folded("er", 18) == ["er"]
    assert "".join(folded("x" * 50, 18)) == "x" * 50 and max(map(len, folded("x" * 50, 18))) <= 18


def test_methods_that_differ_only_at_the_end_of_long_names_are_told_apart(tmp_path):
    start = "er+wap:steps=2,step_size=0.123456 model=convnet:width=16,features=128 memory=20:per="
    runs = {start + end: [result(tmp_path, 0.5, lr=lr)] for lr, end in ((0.1, "class"), (0.2, "total"))}
    (facet,) = facets(setting(tmp_path, runs))
    for draw in (accuracy_curves, print_dots):
        figure = draw(facet, "test images")
        figure.draw_without_rendering()
        texts = [*(figure.legends[0].get_texts() if draw is accuracy_curves else figure.axes[0].texts)]
        assert [text.get_text().replace("\n", "").replace(" ", "") for text in texts] == [
            label_of(label).in_print.replace(" ", "") for label in runs
        ]
        boxes = [text.get_window_extent() for text in texts]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
        assert not boxes[0].overlaps(boxes[1])
        assert figure.axes[0].get_window_extent().width > 0.7 * figure.bbox.width, "the figure is not for its names"
    named = [name["text"] for name in final_accuracies(facet, "test images")["layout"]["annotations"]]
    assert len(set(named)) == 2 and all(max(map(len, name.split("<br>"))) <= 48 for name in named)


def test_figures_for_print(tmp_path, monkeypatch):
    monkeypatch.setattr("moca.report.printing.DOTS", 40)
    label = "_hidden $x^ <&> \N{GRINNING FACE}\n" + "x" * 100
    runs = {"er": [0.5, 0.7], label: [result(tmp_path, 0.5, perturb="wap")],
            "joint": [result(tmp_path, [[0.1] * 3, [0.91, 0.82, 0.73]], learner="joint")]}  # fmt: skip
    made = save_figures(comparison(tmp_path, runs), tmp_path / "figures")
    assert sorted(path.name for path in made) == sorted(f"{name}.{kind}" for name in ("accuracy", "final", "matrices")
                                                        for kind in ("pdf", "png"))  # fmt: skip
    for path in made:
        assert path.read_bytes()[:4] == (b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")


def test_looks_on_the_way_for_print(tmp_path, monkeypatch):
    monkeypatch.setattr("moca.report.printing.DOTS", 40)
    runs = [result(tmp_path, 0.5, seed) for seed in (0, 1)]
    for run, accuracy in zip(runs, (0.5, 0.7), strict=True):
        run.over_stream = [[10, 0.25], [20, accuracy]]
    made = comparison(tmp_path, {"er": runs, "er+wap": [0.5]})
    assert "stream.pdf" in [path.name for path in save_figures(made, tmp_path / "figures")]
    (axes,) = stream_curves(facets(made.settings[0])[0], "test images").axes
    (line,) = axes.get_lines()
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([10, 20], pytest.approx([25, 60]))


def test_curve_over_a_number_for_print(tmp_path):
    (found,) = sweeps(setting(tmp_path, with_strengths(tmp_path)))
    figure = against(found, "test images")
    (axes,) = figure.axes
    level, gaussian, wap = axes.get_lines()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ER", "ER + Gaussian", "ER + WAP"]
    assert figure.legends[0].get_title().get_text() == "mean and standard deviation of 1 to 2 seeds"
    assert set(level.get_ydata()) == {35.0}
    spread = found.levels[0].spread("final_accuracy")
    assert axes.patches[0].get_height() == pytest.approx(2 * 100 * np.nan_to_num(spread.std)), "its deviation is a band"
    assert list(gaussian.get_ydata()) == pytest.approx([5, 10, 20])
    assert (list(wap.get_xdata()), axes.get_xlabel()) == ([1, 3, 4], "λ")


def test_a_logarithmic_axis_names_the_values_that_were_run(tmp_path):
    sizes = {f"er {size}": [result(tmp_path, 0.5, memory=size)] for size in (10, 11, 30, 100, 300)}
    (found,) = sweeps(setting(tmp_path, sizes))
    (axes,) = (figure := against(found, "test images")).axes
    figure.draw_without_rendering()
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "30", "100", "300"], "11 would touch 10"
    assert not any(text.get_text() for text in axes.get_xticklabels(minor=True))
    assert sweep(found, "test images")["layout"]["xaxis"]["tickvals"] == [10, 30, 100, 300]


def test_small_learning_rates_are_written_as_numbers(tmp_path):
    """On the page they would be 10µ and 300µ otherwise."""
    rates = {f"er {rate}": [result(tmp_path, 0.5, lr=rate)] for rate in (1e-5, 3e-4, 0.01)}
    (found,) = sweeps(setting(tmp_path, rates))
    assert sweep(found, "test images")["layout"]["xaxis"]["ticktext"] == ["1e-05", "0.0003", "0.01"]


@pytest.mark.parametrize("judged", ["test images", "held-out training images"])
def test_figures_for_print_are_a_column_wide_and_hold_their_text(tmp_path, judged):
    (shared,) = facets(setting(tmp_path, {"er": [0.5, 0.7], "er+gaussian:lambda=0.5": [0.6, 0.7], "derpp": [0.4]}))
    for draw in (accuracy_curves, print_dots):
        figure = draw(shared, judged)
        figure.draw_without_rendering()
        texts = [figure.axes[0].xaxis.label, figure.axes[0].yaxis.label, *figure.legends[0].get_texts()]
        assert figure.get_figwidth() == COLUMN == 3.25
        assert "mean and standard deviation of 1 to 2 seeds" in figure.legends[0].get_title().get_text()
        for text in (text for text in texts if text.get_text()):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.y0 >= 0, text.get_text()
            assert box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height, text.get_text()


def test_long_names_of_a_curve_stay_within_the_figure(tmp_path):
    learner, model = "er_ace", "convnet:width=16,features=128"
    runs = {f"{epochs} {size}": [result(tmp_path, 0.5, learner=learner, model=model, epochs=epochs, memory=size)]
            for epochs in (10, 20, 30) for size in (200, 500, 2000)}  # fmt: skip
    for found in sweeps(setting(tmp_path, runs)):
        figure = against(found, "test images")
        figure.draw_without_rendering()
        (drawn,) = figure.legends
        box = drawn.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width, [str(line.name) for line in found.lines]
