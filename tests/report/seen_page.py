"""Reading a report as its reader does."""

import html
import re


def text_of(page):
    """What a reader sees, figures left out, with single spaces."""
    body = re.sub(r"<(style|svg|head)\b.*?</\1>", " ", page.replace("<wbr>", ""), flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def cells(page, label):
    """The table's line of a method, as texts."""
    for line in re.findall(r"<tr>\n(<th scope=\"row\"><span class=\"method\">.*?)</tr>", page, flags=re.S):
        texts = [text_of(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", line, flags=re.S)]
        if texts[0] == label:
            return texts
    raise AssertionError(f"no line of {label}")
