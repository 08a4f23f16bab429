"""The pages in docs/ make a site: no warnings, every page in it, every link leads somewhere."""

import doctest
import io
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import torch

import moca
from moca.cli.parts import in_short
from moca.parts import LEARNERS, PERTURBATIONS, Kind
from moca.settings import Run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CARDS = DOCS / "methods"


def build(docs: Path, site: Path) -> tuple[int, str]:
    """As `make docs` does it, in this process, which has loaded already what the pages are about."""
    for needed in ("sphinx", "myst_parser", "ziamath"):
        pytest.importorskip(needed, reason=f"the site needs {needed}, which is in the extra 'dev'")
    from sphinx.cmd.build import main

    options = ["-W", "--keep-going", "--fresh-env", "--quiet", "-b", "html", "-d", str(site / ".doctrees")]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, as in a process of its own; Sphinx's own are none of Python's
        code = main([*options, str(docs), str(site)])
    return code, said.getvalue()


class Page(HTMLParser):
    """The links of a page and the places in it that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.places.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    assert build(DOCS, out) == (0, "")
    return out


def test_every_page_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    first = Page(site / "index.html")
    for source in DOCS.rglob("*.md"):
        page = source.relative_to(DOCS).with_suffix(".html").as_posix()
        assert (site / page).is_file()
        below = source.parent != DOCS and source.name != "index.md" and (source.parent / "index.md").is_file()
        assert page == "index.html" or page in first.links or below


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].places, f"{path}: {link}"


PUBLIC = {
    "moca": set(moca.__all__) - {"data", "sphere"},
    "moca.data": set(moca.data.__all__) - set(moca.__all__),
    "moca.sphere": set(moca.sphere.__all__),
}


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    places = {place for page in (site / "reference").glob("*.html") for place in Page(page).places}
    wanted = {f"{module}.{name}" for module, names in PUBLIC.items() for name in names}
    assert not wanted - places, "docs/reference lacks these"
    overview = {urlsplit(link).fragment for link in Page(site / "reference/index.html").links}
    assert not {f"moca.{name}" for name in PUBLIC["moca"]} - overview, "docs/reference/index.md lacks these"


def test_every_setting_of_a_run_is_in_the_reference(site: Path) -> None:
    page = (site / "reference/runs.html").read_text()
    assert all(f'<span class="pre">{name}</span></code></p></td>' in page for name in Run.model_fields)


@pytest.mark.parametrize("name", sorted(PUBLIC["moca"]))
def test_examples_in_docstrings_are_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    thing = getattr(moca, name)
    found = doctest.DocTestParser().get_doctest(
        thing.__doc__, {"moca": moca, "torch": torch, "np": np}, name, thing.__module__, 0
    )
    said: list[str] = []
    assert doctest.DocTestRunner().run(found, out=said.append).failed == 0, "".join(said)


def test_equations_are_set(site: Path) -> None:
    """As drawings in the page, none left as dollars, and without a script from elsewhere."""
    for source in CARDS.glob("*.md"):
        page = (site / "methods" / source.stem).with_suffix(".html").read_text()
        assert page.count('<div class="math"') == source.read_text().count("$$") // 2, source.name
        assert "$" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL), source.name
        assert not re.search(r'<(script|link)[^>]+(src|href)="(https?:)?//', page), source.name


METHODS = [(kind, name) for kind in (LEARNERS, PERTURBATIONS) for name in kind.built_in if kind.has_card(name)]
every_method = pytest.mark.parametrize(("kind", "name"), METHODS, ids=[name for _, name in METHODS])


def test_every_card_is_of_a_method_and_in_the_table() -> None:
    """Each row is what `moca ls` says; the rows that are missing are in the message, to be pasted."""
    index = (CARDS / "index.md").read_text()
    rows = [
        f"| [`{name}`]({name}.md) | {kind.lines()[name]} | {in_short(kind.papers()[name])} |" for kind, name in METHODS
    ]
    missing = [row for row in rows if row not in index.splitlines()]
    assert not missing, "docs/methods/index.md lacks\n" + "\n".join(missing)
    assert index.count("| [`") == len(rows), "a row of what is no method, or twice"
    assert {card.stem for card in CARDS.glob("*.md")} - {"index"} == {name for _, name in METHODS}


@every_method
def test_a_card_says_what_a_reader_looks_for(kind: Kind, name: str) -> None:
    text = (CARDS / f"{name}.md").read_text()
    assert text.startswith("# ") and len(text.splitlines()) >= 20
    assert re.search(r"^Papers?: \w", text, re.MULTILINE)
    assert text.count("$$") >= 2
    assert "Cost" in text and ("Perturbations" in text or "With learners" in text or kind is PERTURBATIONS)
    part = kind.find(name)
    own = {key: given for key, given in part.options.items() if given is not part.__base__.options.get(key)}
    spelt = [given.about.get("alias", key) for key, given in own.items()]
    missing = [key for key in spelt if not re.search(rf"`{key}\b|\b{key}=", text)]
    assert not missing, "options that the card does not name"


def test_a_page_that_the_first_one_does_not_link_to_and_a_broken_link_are_errors(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "src/moca").mkdir(parents=True)
    for name in ("pyproject.toml", "src/moca/__init__.py", "docs/conf.py"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (docs / "index.md").write_text("# First\n\n[a](a.md)\n")
    (docs / "a.md").write_text("# A\n\n[nowhere](nowhere.md)\n")
    (docs / "alone.md").write_text("# Alone\n")
    code, said = build(docs, tmp_path / "site")
    assert code != 0
    assert "nowhere.md" in said
    assert "alone.md" in said and "toctree" in said


def test_the_readme_links_to_files_that_exist() -> None:
    """It is outside the site; its links are read where the repository is shown."""
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    own = [link for link in links if not urlsplit(link).scheme]
    assert own
    assert all((ROOT / link).is_file() for link in own)
