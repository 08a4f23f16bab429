"""The web page as one HTML file: it loads nothing, and its policy allows only its own script and style."""

import base64
import hashlib
from importlib.resources import files


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


_STYLE, _SCRIPT = _read("style.css"), _read("script.js")
HTML = _read("index.html").replace("/* style */", _STYLE).replace("/* script */", _SCRIPT)
POLICY = (
    f"default-src 'none'; script-src {_digest(_SCRIPT)}; style-src {_digest(_STYLE)}; img-src data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
