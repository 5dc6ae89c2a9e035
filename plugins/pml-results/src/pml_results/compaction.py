"""The same content with fewer tokens: tables of uniform arrays, Markdown of HTML, base64 taken out.

Each is labelled, so that a model knows what it reads; tables can be turned back into what they were made of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .settings import Way

COLUMNS, ROWS = "columns", "rows"
LEAST_ROWS = 3
"""Objects from which an array becomes a table."""
LONGEST = 4 * 2**20
"""Characters of a text that is rewritten; a longer one is left as it is."""
LEAST_BASE64 = 400
"""Characters from which what looks like base64 is taken out."""
BASE64 = re.compile(rf"(?:data:([\w.+-]+/[\w.+-]+)?;base64,)?([A-Za-z0-9+/_-]{{{LEAST_BASE64},}})={{0,2}}")
HTML = re.compile(
    r"\s*(?:<!doctype html|<html\b|<(?:head|body|div|table|ul|ol|article|section|p|h[1-6])\b[^>]*>)", re.IGNORECASE
)
LONGEST_HTML = 2**20
"""Characters of HTML that is read: its reader takes some 2 us a character."""
TABLES_LABEL = 'Arrays of objects are written as tables: {"columns": names, "rows": values in that order}.'
HTML_LABEL = "Markdown made of HTML; scripts, styles and attributes are left out."


def compacted(text: str, ways: Sequence[Way]) -> str:
    """``text`` written with fewer characters in the ways that fit it, with a label for each before it.

    A text that none of them makes shorter is given back as it is.
    """
    if len(text) > LONGEST:
        return text
    labels: list[str] = []
    done = text
    for way in ways:
        label, shorter = WAYS[way](done)
        if len(shorter) + len(label) < len(done):
            done = shorter
            labels += [label] if label else []
    return "\n".join([*labels, done])


def tables_of(text: str) -> tuple[str, str]:
    """JSON with tables in place of uniform arrays; the label, and the text as it was where there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "", text
    if _has_tables(value):  # what is there already could not be told from what is made
        return "", text
    made = _with_tables(value)
    return TABLES_LABEL, json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def expanded(text: str) -> Any:
    """The value that a text with tables was made of.

    Raises:
        ValueError: It is no JSON.
    """
    return _without_tables(json.loads(text.removeprefix(TABLES_LABEL + "\n")))


def _with_tables(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_tables(member) for name, member in value.items()}
    if not isinstance(value, list):
        return value
    names = _columns(value)
    if names is None:
        return [_with_tables(item) for item in value]
    return {COLUMNS: names, ROWS: [[_with_tables(item[name]) for name in names] for item in value]}


def _columns(items: Sequence[Any]) -> list[str] | None:
    """The names that all of these objects have, in the order of the first; None where they are no uniform objects."""
    if len(items) < LEAST_ROWS or not all(isinstance(item, dict) for item in items):
        return None
    names = list(items[0])
    return names if names and all(list(item) == names for item in items) else None


def _without_tables(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_tables(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_table(value):
        names = value[COLUMNS]
        return [dict(zip(names, map(_without_tables, row), strict=True)) for row in value[ROWS]]
    return {name: _without_tables(member) for name, member in value.items()}


def _is_table(value: Mapping[str, Any]) -> bool:
    return list(value) == [COLUMNS, ROWS]


def _has_tables(value: Any) -> bool:
    if isinstance(value, dict):
        return _is_table(value) or any(_has_tables(member) for member in value.values())
    return isinstance(value, list) and any(_has_tables(item) for item in value)


def markdown_of(text: str) -> tuple[str, str]:
    """Markdown of an HTML text; anything else as it was."""
    if len(text) > LONGEST_HTML or not HTML.match(text):
        return "", text
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    page = BeautifulSoup(text, "html.parser")
    for gone in page(["script", "style", "noscript", "template", "svg"]):
        gone.decompose()
    try:
        made = MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(page)
    except RecursionError:
        return "", text
    return HTML_LABEL, re.sub(r"\n{3,}", "\n\n", made).strip()


def without_base64(text: str) -> tuple[str, str]:
    """``text`` with a note in place of each long run of base64; needs no label before it."""
    return "", BASE64.sub(_note, text)


def _note(found: re.Match[str]) -> str:
    kind = f"{found[1]}, " if found[1] else ""
    return f"[base64 left out: {kind}{len(found[2]) * 3 // 4:,} bytes]"


WAYS: Mapping[Way, Callable[[str], tuple[str, str]]] = {
    "tables": tables_of,
    "html": markdown_of,
    "base64": without_base64,
}
