"""How Sphinx makes a site of the pages in this folder, which are plain Markdown and read as well without it."""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

_ROOT = Path(__file__).parents[1]

project = "moca"
author = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["authors"][0]["name"]
copyright = author
release = re.findall(r'__version__ = "(.+)"', (_ROOT / "src/moca/__init__.py").read_text())[0]

extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
nitpicky = True
highlight_language = "bash"  # blocks that name no language are commands
html_theme = "furo"
html_title = "moca"
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False


def _navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """The links of the first page, in their order, are the site's navigation, and those of the methods' first page to
    the cards beside it are what is below that; a page that both lack is a warning."""
    if page in ("index", "methods/index"):
        below = r"[\w/-]+" if page == "index" else r"[\w-]+"
        pages = dict.fromkeys(re.findall(rf"\]\(({below})\.md\)", source[0]))
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _navigation)
