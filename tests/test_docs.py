"""The pages in docs/ make a site: no warnings, every page in it, every link leads somewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def build(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    for needed in ("sphinx", "myst_parser"):
        pytest.importorskip(needed, reason="the site needs sphinx and myst-parser, which are in the extra 'dev'")
    options = ["-W", "--keep-going", "--fresh-env", "--quiet", "-b", "html", "-d", str(site / ".doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(docs), str(site)]
    return subprocess.run(command, capture_output=True, text=True)


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
    built = build(DOCS, out)
    assert built.returncode == 0, built.stderr
    assert built.stdout + built.stderr == ""
    return out


def test_every_page_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    first = Page(site / "index.html")
    for source in DOCS.glob("*.md"):
        assert (site / f"{source.stem}.html").is_file()
        assert source.stem == "index" or f"{source.stem}.html" in first.links


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    pages = {path.name: Page(path) for path in site.glob("*.html")}
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = unquote(parts.path) or name
            assert (site / target).is_file(), f"{name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].places, f"{name}: {link}"


def test_a_page_that_the_first_one_does_not_link_to_and_a_broken_link_are_errors(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "src/moca").mkdir(parents=True)
    for name in ("pyproject.toml", "src/moca/__init__.py", "docs/conf.py"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (docs / "index.md").write_text("# First\n\n[a](a.md)\n")
    (docs / "a.md").write_text("# A\n\n[nowhere](nowhere.md)\n")
    (docs / "alone.md").write_text("# Alone\n")
    built = build(docs, tmp_path / "site")
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr
    assert "alone.md" in built.stderr and "toctree" in built.stderr


def test_the_readme_links_to_files_that_exist() -> None:
    """It is outside the site; its links are read where the repository is shown."""
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    own = [link for link in links if not urlsplit(link).scheme]
    assert own
    assert all((ROOT / link).is_file() for link in own)
