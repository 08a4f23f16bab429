"""How Sphinx makes a site of the pages in this folder, which are plain Markdown and read as well without it."""

import re
import tomllib
from html import escape
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator
from ziamath import Latex, config

_ROOT = Path(__file__).parents[1]

project = "moca"
author = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["authors"][0]["name"]
copyright = author
release = re.findall(r'__version__ = "(.+)"', (_ROOT / "src/moca/__init__.py").read_text())[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of torch, numpy and of moca's inner rooms have no page here
default_role = "code"  # docstrings write `code` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autosummary_generate = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
highlight_language = "bash"  # blocks that name no language are commands
html_theme = "furo"
html_title = "moca"
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
html_math_renderer = "drawn"
config.svg2, config.precision = False, 2  # drawings without references, which two formulas of a page would share


def _navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """The links of the first page, in their order and under its headings, are the site's navigation, and those of a
    folder's first page to the pages beside it are what is below that; a page that all lack is a warning."""
    if page == "index":
        _, *parts = re.split(r"(?m)^\*\*(.+)\*\*$", source[0])
        for heading, text in zip(parts[::2], parts[1::2], strict=True):
            source[0] += _listed(re.findall(r"\]\(([\w/-]+)\.md\)", text), f":caption: {heading}")
    elif page.endswith("/index"):
        source[0] += _listed(re.findall(r"\]\(([\w-]+)\.md\)", source[0]))


def _listed(pages: list[str], *options: str) -> str:
    """What Sphinx makes a part of the navigation of; nothing of no pages."""
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", *dict.fromkeys(pages), "```", ""]) if pages else ""


def _settings(app: Sphinx, page: str, source: list[str]) -> None:
    """The settings of a run, in the place of the mark for them."""
    if "<!-- settings -->" in source[0]:
        from moca.settings import RECIPE, Run

        rows = ["| setting | default | what it is |", "|---|---|---|"]
        for name, field in Run.model_fields.items():
            default = "recipe" if name in RECIPE else "" if field.default in (None, ()) else f"`{field.default}`"
            rows.append(f"| `{name}` | {default} | {field.description} |")
        source[0] = source[0].replace("<!-- settings -->", "\n".join(rows))


def _arguments(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """What stands under `Args:` and the like as lists; of attributes napoleon would take what is before a colon for a
    type."""
    if what not in ("attribute", "property", "data"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, thing, options).lines()


def _formula(writer: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """A formula as a drawing in the page, so that the site needs no network; an unknown command is a warning."""
    text, block = node.astext(), isinstance(node, nodes.math_block)
    if unknown := re.search(r"\\[A-Za-z]+", convert(text)):
        getLogger(__name__).warning("%s is not known in formulas", unknown[0], location=node)
    drawn = Latex(text, size=17, color="currentColor", inline=not block)
    below = f"vertical-align: {drawn.getyofst():.1f}px"
    svg = drawn.svg().replace("<svg", f'<svg role="img" aria-label="{escape(text)}" style="{below}"', 1)
    writer.body.append(f'<div class="math" style="overflow-x: auto; margin: 0.9em 0">{svg}</div>' if block else svg)
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.add_html_math_renderer("drawn", (_formula, None), (_formula, None))
    app.connect("autodoc-process-docstring", _arguments)
    app.connect("source-read", _navigation)
    app.connect("source-read", _settings)
