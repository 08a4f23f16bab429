"""Reading a report as its reader does."""

import html
import json
import re


def text_of(page):
    """What a reader sees, figures left out, with single spaces."""
    body = re.sub(r"<(style|script|head)\b.*?</\1>", " ", page.replace("<wbr>", ""), flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def cells(page, label, table="summary"):
    """A table's line of a method by the titles of its columns, as texts."""
    found = re.search(rf'aria-label="{table}">(.*?)</table>', page, flags=re.S)[1]
    head = [text_of(title) for title in re.findall(r"<th scope=\"col\">.*?</th>", found)]
    for line in re.findall(r"<tr>\n(.*?)</tr>", found, flags=re.S):
        texts = [text_of(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", line, flags=re.S)]
        if texts[0] == label:
            return dict(zip((title.rstrip("\N{NO-BREAK SPACE} ↑↓") for title in head), texts, strict=True))
    raise AssertionError(f"no line of {label}")


def data_of(page):
    """What the page's script is given."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.S)[1])
