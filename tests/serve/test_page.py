"""The page in a real browser."""

import shutil
from contextlib import contextmanager

import pytest

from tests.classifier.conftest import bars
from tests.serve.conftest import png, serving

playwright = pytest.importorskip("playwright.sync_api", reason="the page is tested with playwright, of the extra 'dev'")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
NASTY = "<img src=x onerror=\"document.title='broken in'\"><script>document.title='broken in'</script>"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser, client, **options):
    """The page, and what went wrong in it."""
    page, problems = browser.new_page(**options), []
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on(
        "request",
        lambda asked: (
            problems.append(asked.url) if "127.0.0.1" not in asked.url and asked.url.startswith("http") else None
        ),
    )
    page.goto(str(client.base_url))
    yield page, problems
    page.close()


def images(label, count, seed=5, name="{}.png"):
    return [
        {"name": name.format(n), "mimeType": "image/png", "buffer": png(image)}
        for n, image in enumerate(bars(label, count, seed))
    ]


DROP = """([at, bytes, name, kind]) => {
    const files = new DataTransfer();
    files.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
    const event = kind === "paste"
        ? new ClipboardEvent("paste", { clipboardData: files, bubbles: true, cancelable: true })
        : new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
    document.querySelector(at).dispatchEvent(event);
}"""


AGAIN = """(bytes) => {
    const files = new DataTransfer();
    for (let n = 0; n < 3; n++)
        files.items.add(new File([new Uint8Array(bytes)], "again.png", { type: "image/png", lastModified: 1 }));
    document.querySelector("#teach-zone").dispatchEvent(new DragEvent("drop", { dataTransfer: files }));
}"""


def test_an_answer_that_is_wrong_is_taught_from_where_it_stands(browser, model):
    with (
        serving(model.path) as client,
        opened(browser, client, viewport={"width": 390, "height": 600}) as (page, problems),
    ):
        page.wait_for_selector("#classes li >> nth=1")
        page.set_input_files("#look-files", images(2, 2))
        page.wait_for_selector(".neighbours >> nth=1")
        page.locator(".told button").nth(1).click()
        page.locator(".told button").nth(0).click()
        assert page.evaluate("document.activeElement.id") == "class-name"
        page.wait_for_function("document.querySelector('#class-name').getBoundingClientRect().bottom < innerHeight")
        page.keyboard.type("bar 2")
        assert (page.locator(".thumb").count(), page.inner_text("#begin")) == (2, "Teach from 2 images")
        assert page.is_enabled("#begin")
        page.locator(".told button").nth(0).click()
        assert page.locator(".thumb").count() == 2, "it is there already"
        assert not problems
    with serving(model.path, taught=False) as client, opened(browser, client) as (page, _):
        page.wait_for_selector("#classes li >> nth=1")
        page.set_input_files("#look-files", images(2, 1))
        page.wait_for_selector(".neighbours")
        assert not page.locator(".told button").count()


def test_looking_and_teaching(browser, model):
    with serving(model.path) as client, opened(browser, client) as (page, problems):
        page.wait_for_selector("#classes li >> nth=1")
        assert page.inner_text("#version") == "version 1"
        correct = model.about()["lesson"]["correct"]
        right, held = (sum(counts[place] for counts in correct) for place in (1, 2))
        told = f"{100 * right / held:.1f}\xa0% of {held} held-out images correct"
        assert page.inner_text("#summary").endswith(told)

        page.set_input_files("#look-files", images(0, 1, name=NASTY.replace("/", "")))
        page.wait_for_selector(".neighbours img >> nth=5")
        assert page.inner_text(".result figcaption") == NASTY.replace("/", "")
        told = client.post("/api/predict", files=[("images", ("a.png", png(bars(0, 1, 5)[0])))]).json()
        best = told["predictions"][0]["classes"][0]
        assert page.inner_text(".verdict") == best["class"]
        assert page.inner_text(".value.first").replace("\xa0", " ") == f"{100 * best['share']:.1f} %"

        content = list(png(bars(1, 1, 6)[0]))
        page.evaluate(DROP, ["#look-zone", content, "dropped.png", "drop"])
        page.wait_for_selector("figcaption:text-is('dropped.png')")
        page.evaluate(DROP, ["body", content, "pasted.png", "paste"])
        page.wait_for_selector("figcaption:text-is('pasted.png')")
        assert page.locator(".result").count() == 3
        bad = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"hello"}
        page.set_input_files("#look-files", [*images(0, 2, seed=7), bad])
        page.wait_for_selector(".result.bad:has-text(\"'a.txt' cannot be used\")")
        assert page.locator(".result:not(.bad) .verdict").count() == 5, "the others are told"

        assert page.is_disabled("#begin")
        page.fill("#class-name", NASTY)
        unreadable = [{"name": f"{n}.txt", "mimeType": "text/plain", "buffer": b"hello"} for n in range(5)]
        taught = images(2, 12)
        page.set_input_files("#teach-files", taught[:3])
        page.click("#clear")
        assert page.locator(".thumb").count() == 0
        page.set_input_files("#teach-files", taught + unreadable)
        page.evaluate(AGAIN, list(taught[0]["buffer"]))
        assert page.locator(".thumb").count() == 18
        page.wait_for_selector("#left-out:has-text(\"5 images left out: '0.txt' cannot be used\")")
        assert page.inner_text("#left-out").endswith("(and 2 more).")
        page.click(".thumb .cross >> nth=0")
        assert page.inner_text("#begin") == "Teach from 12 images"
        page.click("#begin")
        page.wait_for_selector("#progress:visible, #outcome:visible")
        assert (page.locator(".thumb").count(), page.input_value("#class-name")) == (0, "")
        page.wait_for_selector("#outcome .good:text-is('Version 2 is in use.')")
        assert NASTY in page.inner_text("#outcome")
        assert page.is_visible("#left-out")
        page.wait_for_selector("#version:text-is('version 2')")
        assert page.locator("#classes .name >> nth=2").inner_text() == NASTY
        page.wait_for_selector(".bars >> nth=0 >> .name >> nth=2")  # what was asked before is asked again
        assert page.locator("#history li").count() == 2
        assert page.title() == "bars \u2013 moca"
        assert model.about()["classes"][-1] == NASTY

        page.fill("#class-name", "bar 1")
        page.set_input_files("#teach-files", taught[1:3])
        page.click("#begin")
        page.wait_for_selector("#outcome .problem:has-text('2 images were learnt before as another class')")

        page.wait_for_selector("#history li >> nth=2")
        page.click("#history li:last-child button")  # of version 1
        page.click("#sure-yes")
        page.wait_for_selector("#version:text-is('version 1')")
        page.click("#classes .cross >> nth=0")
        page.click("#sure button.plain")
        page.click("#classes .cross >> nth=0")
        page.click("#sure-yes")
        page.wait_for_selector("#version:text-is('version 4')")
        page.wait_for_selector("#history p:text-is('forgot bar 0; from version 1')")
        assert (model.current, model.about()["classes"]) == (4, ["bar 1"])
        assert [line for line in problems if "415" not in line] == []  # the browser notes every answer of that kind


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_in_its_colours(browser, client, width, scheme):
    size = {"width": width, "height": 800}
    with opened(browser, client, viewport=size, color_scheme=scheme) as (page, problems):
        page.set_input_files("#look-files", images(0, 1, name="a" * 150 + ".png"))
        page.wait_for_selector(".neighbours img")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, colour[4:-1].split(","))) > 384) == (scheme == "light")
        assert problems == []


def test_the_page_asks_for_the_key(browser, template):
    with serving(template, key="correct-horse") as client, opened(browser, client) as (page, problems):
        for key, shown in (
            ("wrong-horse", "#key-problem:text-is('That is not the key.')"),
            ("correct-horse", "#classes li"),
        ):
            page.fill("#key-given", key)
            page.press("#key-given", "Enter")
            page.wait_for_selector(shown)
        assert not page.is_visible("#key")
        assert [line for line in problems if "401" not in line] == []
