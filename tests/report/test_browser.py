"""The page in a real browser: what is drawn, what can be clicked, and what it asks for."""

import csv
import io
from pathlib import Path

import pytest

from moca.report.exhibit import Exhibit
from moca.report.page import write_report
from tests.report.made_results import analysed, comparison, pictures, result
from tests.report.made_results import method as settings_of

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}")

EVIL = "</script><script>window.caught = 1</script><img src=x onerror='window.caught=1'><a href='http://x'>$y$ %{x}"
ANALYSES = 2 + 1 + 1 + 2 + 2
"""Figures of the analyses of two methods: lines by series, bars, a matrix and a plane of each method."""
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The page, opened once, with what went wrong on it and what it asked for."""
    folder = tmp_path_factory.mktemp("report")
    runs = {"er": [0.5, 0.6, 0.55], "er+wap": [0.7, 0.8, 0.7], "derpp": [0.6, 0.5, 0.7],
            EVIL: [result(folder, 0.4, lr=0.5)],
            "er data=mnist": [result(folder, 0.9, data="mnist", notes=[EVIL])]}  # fmt: skip
    for method in ("er", "er+wap"):
        runs[method] = [
            analysed(
                result(folder, value, seed, **settings_of(method)), folder / f"{method}-{seed}", value, [EVIL, *"bcd"]
            )
            for seed, value in enumerate(runs[method])
        ]
    path = write_report(comparison(folder, runs), [Exhibit("Pictures", figures=[pictures()])], about=EVIL)
    mistakes, asked = [], []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page(viewport=DESK, color_scheme="light")
        page.on("console", lambda message: mistakes.append(message.text))
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        yield page, mistakes, asked
        browser.close()


@pytest.fixture
def page(opened):
    """The page as it is at first; nothing may go wrong on it, and it may ask for nothing from outside."""
    shown, mistakes, asked = opened
    shown.emulate_media(color_scheme="light")
    shown.set_viewport_size(DESK)
    shown.locator("#plot-0").scroll_into_view_if_needed()
    shown.wait_for_selector("#plot-0 .main-svg")
    yield shown
    assert mistakes == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def until(page, expression):
    """Wait until it is true; the page lets no text be run that would wait by itself."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(expression)


def test_every_figure_is_drawn_and_nothing_of_the_user_is_run(page):
    boxes = page.locator("[data-plot]")
    assert boxes.count() == 2 + 4 + ANALYSES + 2 + 1 + 1
    for i in range(boxes.count()):
        boxes.nth(i).scroll_into_view_if_needed()
        page.wait_for_selector(f"#plot-{i} .main-svg", state="attached")
    first = 6  # after the accuracies and matrices of the first setting
    assert page.locator(f"#plot-{first} .scatterlayer .trace").count() == 4, "two lines with their bands"
    assert page.locator(f"#plot-{first + 3} .barlayer .point").count() == 8, "four places of two methods"
    assert page.locator(f"#plot-{first + 4} .heatmaplayer").count() == 1
    assert page.locator(f"#plot-{first + 6} .scatterlayer .trace").count() == 8, "points and vector of four classes"
    assert page.locator("#plot-0 .scatterlayer .trace").count() == 7, "four lines, three of them with a band"
    assert page.evaluate("window.caught") is None
    assert page.locator("img, a[href^='http']").count() == 0
    shown = page.locator("#plot-0 .legendtext", has_text="window.caught")
    assert shown.count() == 1 and "$y$" in shown.text_content(), "it is shown as text"


def test_links_lead_to_where_they_point_though_figures_are_drawn_on_the_way(page):
    page.set_viewport_size(PHONE)
    page.reload()
    links = page.locator("#setting-1 .contents a")
    assert links.all_text_contents()[:3] == ["Summary", "Accuracy", "Task by task"]
    assert page.evaluate(
        "[...document.querySelectorAll('.contents a')].every(a => document.getElementById(a.hash.slice(1)))"
    )
    links.last.click()
    until(page, "Math.abs(document.getElementById('setting-1-run-it-again').getBoundingClientRect().top) < 2")
    page.wait_for_timeout(200)
    assert abs(page.locator("#setting-1-run-it-again").bounding_box()["y"]) < 2


HIDDEN = "document.getElementById('plot-0').data.filter(t => t.visible === 'legendonly').map(t => t.name)"


def test_a_click_on_the_legend_hides_a_line_with_its_band(page):
    page.locator("#plot-0 .legendtoggle").nth(1).click()
    until(page, f"{HIDDEN}.length")
    assert page.evaluate(HIDDEN) == ["er+wap", "er+wap"]
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(100)
    assert page.evaluate(HIDDEN) == ["er+wap", "er+wap"], "what is hidden stays so"
    page.wait_for_timeout(400)  # or it would be a double click
    page.locator("#plot-0 .legendtoggle").nth(1).click()
    until(page, f"{HIDDEN}.length === 0")


def test_hovering_tells_the_numbers(page):
    page.locator("#plot-0 .scatterlayer .trace .points path").last.hover(force=True)
    assert "task 3: 40.00 % (n = 1)" in page.locator("#plot-0 .hovertext").first.text_content()


def test_tables_and_commands_are_copied(page):
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.locator("[data-form=csv]").first.click()
    rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    assert [row["Method"] for row in rows] == ["er", "er+wap", "derpp", EVIL]
    assert rows[1]["Final accuracy"] == "73.33"
    page.locator("[data-form=latex]").first.click()
    assert page.evaluate("window.copied").startswith("\\begin{table}")
    page.locator("summary", has_text="Each run").first.click()
    page.locator("button[data-copied^='moca run']").first.click()
    assert page.evaluate("window.copied").startswith("moca run ")


def test_figures_are_saved(page):
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with page.expect_download() as waited:
            page.locator(f"[data-save={kind}]").first.click()
        assert waited.value.suggested_filename == f"accuracy-over-tasks.{kind}"
        assert Path(waited.value.path()).read_bytes().startswith(start)


def test_figures_follow_the_scheme(page):
    colour = "document.getElementById('plot-0').data.find(t => t.mode === 'lines+markers').line.color"
    fill = "getComputedStyle(document.querySelector('#plot-0 .main-svg')).backgroundColor"
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    assert page.evaluate(fill) == page.evaluate(ground) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    until(page, f"{colour} !== '{before}'")
    assert page.evaluate(fill) == page.evaluate(ground) == "rgb(20, 23, 27)"


def test_a_phone_is_wide_enough(page):
    page.set_viewport_size(PHONE)
    until(page, "document.querySelector('#plot-0 .main-svg').clientWidth < 390")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_pictures_have_most_of_the_width_and_no_empty_space_around_them(page):
    box = page.locator("[data-plot]").last
    for size in (DESK, PHONE):
        page.set_viewport_size(size)
        box.scroll_into_view_if_needed()
        until(page, "[...document.querySelectorAll('[data-plot]')].at(-1).querySelector('.imagelayer image')")
        page.wait_for_timeout(300)  # it is drawn again after a while
        whole, image = box.bounding_box(), box.locator(".imagelayer image").bounding_box()
        assert image["width"] > 0.65 * whole["width"]
        assert whole["height"] - image["height"] < 60
        names = box.locator(".ytick text")
        assert names.count() == 2 and names.nth(0).bounding_box()["x"] >= whole["x"], "they are not cut"
