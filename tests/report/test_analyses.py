"""Recorded analyses of several runs: what is averaged, what shares a panel, and what page and print make of it."""

import json
import math

import numpy as np
import pytest
from matplotlib.image import imread

from moca import MocaError
from moca.engine.folder import RunFolder
from moca.errors import MocaWarning
from moca.measures.analysis import Analysis, Axis, Plot, write
from moca.measures.lead import ADJUST
from moca.report.analysis_figures import draw, figure_of
from moca.report.analysis_plots import of_panels, plane
from moca.report.exhibit import analyses
from moca.report.facets import MOST
from moca.report.figures import save_figures
from moca.report.page import render
from moca.report.printing import COLUMN, PAGE, save
from moca.report.side_by_side import Group, Line, Panel, groups, heights, panels, widths
from moca.report.table import UNKNOWN
from tests.report.made_results import analysed, comparison, result
from tests.report.seen_page import cells, data_of, text_of


def made(folder, methods, only=None, **settings):
    """A comparison whose runs are analysed: of each method, the scales of its seeds and its settings."""
    runs = {
        label: [
            analysed(result(folder, 0.5, seed, **settings | others), folder / f"{label}-{seed}", scale, only=only)
            for seed, scale in enumerate(scales)
        ]
        for label, (scales, others) in methods.items()
    }
    return comparison(folder, runs)


@pytest.fixture
def pair(tmp_path):
    return made(tmp_path, {"er": ([0.2, 0.4], {}), "er+wap": ([0.8], {"perturb": "wap"})})


def test_seeds_are_averaged_and_methods_share_a_panel_in_their_colours(pair):
    (setting,) = pair.settings
    both = groups(setting.rows)
    old, new = panels(both, "made", "course")
    assert (old.title, new.title) == ("old", "new")
    first, second = old.lines
    assert (first.label, first.seeds, second.label, second.seeds) == ("er", 2, "er+wap", 1)
    assert first.values == [None, pytest.approx(0.3), pytest.approx(0.6)]
    assert first.spread == [None, pytest.approx(math.sqrt(0.02)), pytest.approx(2 * math.sqrt(0.02))]
    assert second.spread is None
    spread = both[0].number("made", "mean angle")
    assert (spread.mean, spread.std) == (pytest.approx(3), pytest.approx(math.sqrt(2)))


def test_what_a_lead_was_tested_with_is_named_in_words(tmp_path):
    run = result(tmp_path, 0.5)
    run.folder = tmp_path
    curves = Plot("lines", Axis("", [0, 1]), Axis(""), {"own": [1.0, 2.0], "b": [2.0, 3.0]})
    courses = Plot("lines", Axis("", [1, 2]), Axis(""), {"own, adjust=0": [1.0, 2.0], "b, adjust=1": [2.0, 3.0]})
    stored = {"best adjust, own": 1.0, "best adjust, b": 2.0}
    plots = {"lead_at_the_end": curves, "lead_over_tasks": courses}
    write(RunFolder(tmp_path), {"lead_over_tasks": Analysis("Lead", "own and b", stored, plots)})
    (shown,) = analyses(comparison(tmp_path, {"er": [run]}).settings[0])
    names = {trace["name"] for several in shown.figures for _, plot in several for trace in plot["data"]}
    replayed = "replayed BatchNorm statistics"
    assert names == {"as tested", replayed, "as tested, adjust=0", f"{replayed},<br>adjust=1"}
    assert shown.tables[0].head == ("Method", "Best adjust, as tested", f"Best adjust, {replayed}")
    assert "as the run was tested" in shown.caption


def test_adjustments_that_an_older_moca_analysed_have_the_axes_of_today(tmp_path):
    runs = [result(tmp_path, 0.5, seed) for seed in (0, 1)]
    old, new = ("Adjustment (times the lead)", "Accuracy"), (ADJUST, "Accuracy, %")
    for run, (x, y), scale in zip(runs, (old, new), (0.01, 1), strict=True):
        run.folder = tmp_path / str(run.settings.seed)
        run.folder.mkdir()
        plot = Plot("lines", Axis(x, [0, 1]), Axis(y), {"all classes": [50 * scale, None]})
        write(RunFolder(run.folder), {"lead_of_new_classes": Analysis("Lead", "", {}, {"lead": plot})})
    methods = groups(comparison(tmp_path, {"er": runs}).rows)
    ((line,),) = [panel.lines for panel in panels(methods, "lead_of_new_classes", "lead")]
    assert (line.plot.x.name, line.plot.y.name, line.values, line.seeds) == (*new, [50.0, None], 2)


def test_seeds_recorded_over_other_ranges_are_averaged_where_these_overlap(tmp_path):
    runs = [result(tmp_path, 0.5, seed) for seed in (0, 1)]
    for run, x in zip(runs, ([1, 2, 3], [0, 1, 2]), strict=True):
        run.folder = tmp_path / str(run.settings.seed)
        run.folder.mkdir()
        plot = Plot("lines", Axis("", x), Axis(""), {"s": [10.0 * value for value in x]})
        write(RunFolder(run.folder), {"made": Analysis("Made", "", {}, {"course": plot})})
    ((line,),) = [panel.lines for panel in panels(groups(comparison(tmp_path, {"er": runs}).rows), "made", "course")]
    assert (line.plot.x.values, line.values, line.seeds) == ([1, 2], [10.0, 20.0], 2)


def test_of_one_method_all_series_share_a_panel_and_none_is_grey(pair):
    (alone,) = panels(groups(pair.settings[0].rows[:1]), "made", "course")
    assert [(line.label, line.place) for line in alone.lines] == [("old", 1), ("new", 2)]


def test_an_axis_ends_with_the_data_where_zeros_are_not_worth_seeing():
    def panel(values, trim):
        plot = Plot("lines", Axis("", [1, 3, 5, 7, 9, 11]), Axis(""), {"s": values}, trim=trim)
        return Panel("", [Line("er", 0, "s", plot, values)])

    drawn = [panel([0, 0, 0.5, 0.5, 0, 0], True), panel([0, 0, 0, 1.0, 0, 0], True)]
    assert widths(drawn) == (3, 9)
    assert [plot["layout"]["xaxis"]["range"] for _, plot in of_panels(drawn, "")] == [[3, 9]] * 2
    assert figure_of(drawn).axes[0].get_xlim() == (3, 9)
    assert widths([panel([0, 0, 1, 0, 0, 0], False)]) is None


@pytest.mark.parametrize("tasks", [5, 25])
def test_a_method_with_fewer_values_hides_none_of_the_others(tasks):
    def line(label, place, x):
        return Line(label, place, "s", Plot("lines", Axis("Tasks learned", x), Axis(""), {}), [0.5] * len(x))

    panel = Panel("", [line("joint", 0, [1]), line("lwf", 1, list(range(1, tasks + 1)))])
    for drawn in (panel, Panel("", panel.lines[::-1])):
        left, right = figure_of([drawn]).axes[0].get_xlim()
        assert left < 1
        assert right > tasks
        ((_, plot),) = of_panels([drawn], "")
        modes = {trace["name"]: trace["mode"] for trace in plot["data"]}
        assert modes == {"joint": "lines+markers", "lwf": "lines" if tasks == 25 else "lines+markers"}
        assert plot["layout"]["xaxis"].get("dtick") == (1 if tasks == 5 else None)


def test_bars_of_methods_with_other_classes_stand_above_their_names(tmp_path):
    """Old classes differ with the class order; they may be as many, or fewer."""

    def method(label, place, bars):
        plot = Plot("bars", Axis("Class", [*bars]), Axis("Accuracy lost"), {"test": [*bars.values()]})
        return Group(label, [{"made": Analysis("", "", plots={"bars": plot})}], place)

    both = [method("er", 0, {"cat": 0.1, "dog": 0.2}), method("mir", 1, {"dog": 0.3, "owl": 0.4})]
    drawn = panels([*both, method("der", 2, {"owl": 0.5})], "made", "bars")
    ((_, plot),) = of_panels(drawn, "")
    names = dict(zip(plot["layout"]["xaxis"]["tickvals"], plot["layout"]["xaxis"]["ticktext"], strict=True))
    on_page = {trace["name"]: {names[x]: y for x, y in zip(trace["x"], trace["y"], strict=True) if y}
               for trace in plot["data"]}  # fmt: skip
    assert on_page == {"er": {"cat": 0.1, "dog": 0.2}, "mir": {"dog": 0.3, "owl": 0.4}, "der": {"owl": 0.5}}
    assert [name for name, _ in plot["data"][1]["customdata"]] == ["cat", "dog", "owl"]
    (axes,) = figure_of(drawn).axes
    names = [text.get_text() for text in axes.get_xticklabels()]
    printed = [{names[round(bar.get_center()[0])]: bar.get_height() for bar in bars if bar.get_height()}
               for bars in axes.containers]  # fmt: skip
    assert printed == [*on_page.values()]


@pytest.mark.parametrize("kind", ["bars", "matrix"])
@pytest.mark.parametrize("names", [list(range(1, 21)), [f"class {c}" for c in range(99, -1, -1)]])
def test_places_of_many_tasks_or_classes_have_their_own_names_in_print(kind, names):
    values = [0.5] * len(names) if kind == "bars" else [[0.5] * len(names)] * len(names)
    plot = Plot(kind, Axis("x", names), Axis("y", names if kind == "matrix" else []), {"s": values})
    axes = figure_of([Panel("", [Line("er", 0, "s", plot, values)])]).axes[0]
    for axis in (axes.xaxis, axes.yaxis)[: 1 + (kind == "matrix")]:
        told = {place: text.get_text() for place, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)}
        assert 8 <= len(told) <= 24 and told == {place: str(names[int(place)]) for place in told}


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_a_figure_of_one_line_says_of_how_many_seeds_it_is(kind):
    plot = Plot(kind, Axis("Task", [1, 2]), Axis("Accuracy"), {"s": [0.0, 1.0]})
    figure = figure_of([Panel("", [Line("er", 0, "s", plot, [0.0, 1.0], [0.1, 0.1], seeds=3)])])
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "mean and standard deviation of 3 seeds"
    assert legend.get_texts() == []


def test_a_long_name_of_an_axis_stays_within_the_figure():
    plot = Plot("lines", Axis("Task", [1, 2]), Axis("Effective rank of feature gradients"), {"s": [0.0, 1.0]})
    lines = [Line(label, place, "s", plot, [0.0, 1.0]) for place, label in enumerate(("er", "er+wap"))]
    figure = figure_of([Panel(str(i), lines) for i in range(4)])
    figure.draw_without_rendering()
    upright = [axes.yaxis.label.get_window_extent() for axes in figure.axes if axes.get_ylabel()]
    assert len(upright) == 2 and all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in upright)
    assert not upright[0].overlaps(upright[1])


def test_what_is_worth_seeing_of_each_method_is_marked_and_of_seeds_the_mean(pair):
    def marked(run, mark):
        plot = Plot("lines", Axis("", [0, 1, 2]), Axis(""), {"s": [1.0, 2.0, 3.0]}, mark=mark)
        write(RunFolder(run.folder), {"made": Analysis("Marked", "", {}, {"course": plot})})

    for run, mark in zip([run for row in pair.rows for run in row.results], (0.5, 1.5, 2.0), strict=True):
        marked(run, mark)
    drawn = panels(groups(pair.settings[0].rows), "made", "course")
    assert [panel.marks for panel in drawn] == [[1.0, 2.0]]
    ((_, plot),) = of_panels(drawn, "")
    assert [shape["x0"] for shape in plot["layout"]["shapes"]] == [1.0, 2.0]
    upright = [line.get_xdata()[0] for line in figure_of(drawn).axes[0].lines if len(set(line.get_xdata())) == 1]
    assert upright == [1.0, 2.0]


def test_figures_of_one_method_stand_side_by_side(tmp_path):
    """Each analysis of a single run draws one figure of a kind, which would leave the rest of its row empty."""
    (setting,) = (one := made(tmp_path, {"er": ([1.0], {})})).settings
    (exhibit,) = analyses(setting)
    assert len(exhibit.figures) > 1 and {len(several) for several in exhibit.figures} == {1}
    assert render(one).count('<div class="tiles') == 2, "the accuracy matrix, and all of them"


@pytest.mark.parametrize(("classes", "gap", "shades", "named"), [(10, 1, "few", 10), (100, 0, "all", 12)])
def test_a_matrix_of_many_classes_is_not_hidden_by_its_grid(classes, gap, shades, named):
    values, names = [[0.5] * classes] * classes, [f"c{i}" for i in range(classes)]
    plot = Plot("matrix", Axis("a", names), Axis("b", names), {"s": values})
    ((_, drawn),) = of_panels([Panel("", [Line("er", 0, "s", plot, values)])], "")
    (trace,) = drawn["data"]
    assert (trace["xgap"], trace["ygap"], trace["meta"]["shades"]) == (gap, gap, shades)
    assert [len(drawn["layout"][axis]["tickvals"]) for axis in ("xaxis", "yaxis")] == [named, named]
    assert trace["showscale"] == (shades == "all"), "where no numbers stand, the shades are explained"


def test_panels_of_a_plot_show_the_same_heights(pair):
    drawn = panels(groups(pair.settings[0].rows), "made", "course")
    low, high = 0.3 - math.sqrt(0.02), 1.6
    assert heights(drawn) == pytest.approx((low - 0.07 * (high - low), high + 0.07 * (high - low)))
    ranges = [plot["layout"]["yaxis"]["range"] for _, plot in of_panels(drawn, "")]
    assert ranges[0] == ranges[1] == pytest.approx(heights(drawn), rel=1e-4)
    falling = panels(groups(pair.settings[0].rows), "made", "fall")
    ((_, plot),) = of_panels(falling, "")
    assert plot["layout"]["yaxis"]["range"] == pytest.approx([math.log10(end) for end in heights(falling)], rel=1e-3)


def test_shares_end_at_0_and_1_though_bands_do_not():
    plot = Plot("lines", Axis("Confidence", [0.2, 0.9]), Axis("Accuracy"), {"s": [0.1, 0.9]}, diagonal=True)
    drawn = [Panel("", [Line("er", 0, "s", plot, [0.1, 0.9], [0.3, 0.3], 2)])]
    assert heights(drawn) == figure_of(drawn).axes[0].get_ylim() == pytest.approx((0, 1), abs=0.1)


def test_a_printed_matrix_says_of_how_many_seeds_it_is_and_counts_in_percent(pair):
    figure = figure_of(panels(groups(pair.settings[0].rows), "made", "shares"))
    *_, bar = figure.axes
    assert figure.legends[0].get_title().get_text() == "mean of 1 to 2 seeds"
    assert bar.get_ylabel() == "share (%)"
    assert [text.get_text() for text in bar.get_yticklabels()][-1] == "100"
    assert [text.get_text() for text in figure.axes[0].texts] == ["15", "0", "8"]


@pytest.mark.parametrize("classes", [range(10), [f"a long name {number}" for number in range(10)]])
@pytest.mark.parametrize("count", [1, 3, 6])
def test_printed_matrices_hold_their_names_and_no_empty_stripes(tmp_path, monkeypatch, classes, count):
    monkeypatch.setattr("moca.report.printing.DOTS", 100)
    axis = [Axis(name, [*classes]) for name in ("Predicted class", "True class")]
    plot = Plot("matrix", *axis, {"s": [[0.5] * 10] * 10}, value="share")
    names = ["ER", "ER + VT", "ER + WAP (step_size=100.0)", "DER++", "DER++ + WAP (λ=1.5, step_size=100.0)", "BFP"]
    drawn = [Panel(name, [Line(name, 0, "s", plot, plot.series["s"])]) for name in names[:count]]
    figure = figure_of(drawn)
    ink = np.any(imread(save(figure, tmp_path, "matrix")[1])[..., :3] < 0.99, axis=2)
    assert ink.shape[1] == 100 * (COLUMN if count == 1 else PAGE)
    rows = np.flatnonzero(ink.any(axis=1))
    assert 1 <= rows[0] <= 10 and 1 <= len(ink) - 1 - rows[-1] <= 20, "nothing is cut off, nothing is empty"
    for above, below in zip(figure.axes[:count], figure.axes[3:count], strict=False):
        text = below.title if below.title.get_text() else below._left_title
        assert text.get_window_extent().y1 < above.xaxis.label.get_window_extent().y0


def test_every_kind_of_plot_is_on_the_page_with_its_numbers(pair):
    page = render(pair)
    shown = [plot for plot in data_of(page)["plots"] if plot["alt"].startswith("What <b>it</b> is")]
    kinds = [(plot["kind"], plot["data"][-1]["type"]) for plot in shown]
    assert (
        kinds
        == [("curves", "scatter")] * 3 + [("curves", "bar")] + [("matrix", "heatmap")] * 2 + [("plane", "scatter")] * 2
    )
    lines = [trace for trace in shown[0]["data"] if "colour" in trace["meta"]]
    assert [trace["meta"]["colour"] for trace in lines] == [0, 1], "as in the accuracies"
    assert lines[0]["y"] == [None, 0.3, 0.6]
    assert shown[0]["layout"]["shapes"][0]["x0"] == 2, "the place worth seeing"
    assert shown[4]["data"][0]["z"] == [[0.15, 0.001], [None, 0.075]]
    assert shown[4]["data"][0]["text"] == [["15", ""], ["", "8"]]
    line = cells(page, "er", "What &lt;b&gt;it&lt;/b&gt; is")
    assert (line["Mean angle"], line["None"]) == ("3.000 ± 1.414", UNKNOWN)
    assert "A sentence." in text_of(page) and "<b>it</b>" not in page.split('id="data"')[0]


def test_the_same_numbers_of_several_things_are_rows_and_no_columns(pair):
    for row in pair.settings[0].rows:
        for number, run in enumerate(row.results):
            told = {"rebuilt": 1.0} | {
                f"{of}: {what}": 2.0 + number for of in ("vt", "wap") for what in ("turned", "missed")
            }
            write(RunFolder(run.folder), {"made": Analysis("Pictures", "", told)})
    (found,) = analyses(pair.settings[0])
    plain, each = found.tables
    assert (plain.head, [row[0].text for row in plain.rows]) == (("Method", "Rebuilt"), ["er", "er+wap"])
    assert each.head == ("Method", "Turned", "Missed")
    assert [row[0].text for row in each.rows] == ["er: vt", "er+wap: vt", "er: wap", "er+wap: wap"]
    assert [cell.whole for cell in each.rows[0][1:]] == ["2.500 ± 0.707"] * 2
    assert [row[0].colour for row in each.rows] == [0, 1, 0, 1]


def test_what_was_not_recorded_is_one_line(tmp_path):
    page = text_of(render(comparison(tmp_path, {"er": [0.5, 0.6]})))
    assert page.count("moca analyse FOLDER") == 1 and "--record all" in page
    assert "Calibration" not in page


def test_test_images_that_are_held_out_are_said_so(tmp_path):
    (setting,) = made(tmp_path, {"er": ([1.0], {})}, validation=0.1).settings
    (exhibit,) = analyses(setting)
    assert exhibit.caption.endswith("Here the test images are a held-out share (0.1) of the training images.")


def test_a_damaged_file_hides_no_other(pair):
    (pair.rows[0].results[0].folder / "analysis.json").write_text("{")
    with pytest.warns(MocaWarning, match=r"analysis\.json.* is damaged"):
        (old, _) = panels(groups(pair.settings[0].rows), "made", "course")
    assert [(line.label, line.seeds) for line in old.lines] == [("er", 1), ("er+wap", 1)]


def test_a_run_that_did_not_finish_is_not_averaged(pair):
    pair.rows[0].results[1].status = "diverged"
    assert groups(pair.rows)[0].number("made", "mean angle").mean == pytest.approx(2)


def test_no_figure_has_more_lines_than_colours(tmp_path, monkeypatch):
    monkeypatch.setattr("moca.report.printing.DOTS", 20)
    methods = {f"er lr={lr}": ([1.0], {"lr": lr}) for lr in range(1, 11)}
    (setting,) = made(tmp_path, methods, "fall").settings
    (exhibit,) = analyses(setting)
    titles, plots = zip(*(figure for figures in exhibit.figures for figure in figures), strict=True)
    assert titles == ("Without perturbation (1 of 2)", "Without perturbation (2 of 2)")
    assert [len(plot["data"]) for plot in plots] == [5, 5] and MOST == 8
    drawn = [path.name for path in draw(setting, tmp_path / "f", only=["made"])]
    assert drawn == ["fall-1.pdf", "fall-1.png", "fall-2.pdf", "fall-2.png"]
    assert draw(setting, tmp_path / "f", only=["calibration"]) == []


def test_a_class_is_called_what_it_is_called(pair):
    kept = json.loads((pair.rows[0].results[0].folder / "analysis.json").read_text())
    points = kept["analyses"]["made"]["plots"]["plane"]["series"]["test"]
    drawn = plane(points | {"names": ["R&D <x> of two"] * 9}, dict.fromkeys(range(9), ("", "")), "")
    assert drawn["data"][0]["name"] == "R&amp;D &lt;x&gt; of two"
    assert {note["text"] for note in drawn["layout"]["annotations"]} == {"<b>R&amp;D &lt;x&gt; of …</b>"}


def test_points_of_a_class_have_one_colour_in_all_panels(pair):
    kept = json.loads((pair.rows[0].results[0].folder / "analysis.json").read_text())
    points = kept["analyses"]["made"]["plots"]["plane"]["series"]["test"]
    for name in ("x", "y", "class", "old"):
        del points[name][0]  # the first class is not there
    (pair.rows[0].results[0].folder / "analysis.json").write_text(json.dumps(kept))
    drawn = of_panels(panels(groups(pair.settings[0].rows), "made", "plane"), "")
    colours = [{trace["name"]: trace["meta"]["own"] for trace in plot["data"]} for _, plot in drawn]
    assert colours[0] == {name: own for name, own in colours[1].items() if name != "a"}


def test_figures_of_every_kind_for_print(pair, tmp_path, monkeypatch):
    monkeypatch.setattr("moca.report.printing.DOTS", 20)
    small = made(tmp_path / "small", {"er": ([1.0], {})}, "fall")
    names = {path.name for path in draw(pair.settings[0], tmp_path / "f")}
    kinds = ("course", "fall", "heights", "shares", "plane")
    assert names == {f"{kind}.{form}" for kind in kinds for form in ("pdf", "png")}
    assert {"accuracy.pdf", "fall.pdf"} <= {path.name for path in save_figures(small, tmp_path / "f")}
    (tmp_path / "file").write_text("")
    with pytest.raises(MocaError, match=r"folder '.*' cannot be written: .* is a file; choose another"):
        draw(pair.settings[0], tmp_path / "file")


def test_methods_are_called_as_in_papers_in_print(pair, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("moca.report.analysis_figures.save", lambda figure, *place: drawn.append(figure) or [])
    draw(pair.settings[0], tmp_path)
    named = {text.get_text() for figure in drawn for legend in figure.legends for text in legend.get_texts()}
    assert {"ER", "ER + WAP"} <= named and not named & {"er", "er+wap"}
