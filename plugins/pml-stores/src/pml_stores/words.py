"""Words: of what an execution says, and of what is asked for. Letters and digits side by side, whatever their case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import normalize

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

SEARCHED_CHARACTERS = 2048
"""Characters of each text that are searched."""
WORD_CHARACTERS = 500
"""Longest word that is told from others; no database takes words of any length."""
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def words(text: str | None) -> list[str]:
    """The words of ``text``, each once; letters and their accents are one."""
    lower = (text or "").lower()
    found = _WORD.findall(lower if lower.isascii() else normalize("NFC", lower))
    return list(dict.fromkeys(word[:WORD_CHARACTERS] for word in found))


def said(record: ExecutionRecord, request: bytes, response: bytes) -> list[str]:
    """The words that ``record`` is found by, whose request and response are given as JSON; none of what is nested."""
    if record.nested:
        return []
    failure = record.failure.message if record.failure else ""
    parts = [part[:SEARCHED_CHARACTERS] for part in (record.intent, record.target, failure)]
    return words("\n".join((*parts, of_json(request), of_json(response))))


def of_json(raw: bytes) -> str:
    """The beginning of ``raw`` with what is escaped in it as it is meant: after a line break a new word begins."""
    # Four bytes are the most that a character takes.
    text = raw[: SEARCHED_CHARACTERS * 4].decode(errors="replace")[:SEARCHED_CHARACTERS]
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
    # Two escapes may be one character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
