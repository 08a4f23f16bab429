import pytest

from moca.report import page


@pytest.fixture(autouse=True)
def library(request, monkeypatch):
    """A page is read faster without the library that draws; only a browser needs it."""
    if not request.module.__name__.endswith("test_browser"):
        monkeypatch.setattr(page, "_plotly", lambda: "/* plotly.js v0 */")
