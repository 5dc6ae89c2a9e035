"""Arguments that worked, without what is somebody's: of texts only their kind is left, unless the schema has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pml_kit.schema.budget import UnreadableError
from pml_kit.schema.document import Document
from pml_kit.schema.members import NOTHING, properties, required

from .shape import is_plain, kind_of

DEEPEST, MOST_MEMBERS = 3, 12
LARGEST = 1_000
"""Whole numbers up to here are limits, pages and counts; larger ones may be ids of people."""
LONGEST_CHOICE = 40
LONGEST_TEXT = 300
"""Of a longer text, the kind is not looked for [characters]."""
MOST_CHOICES = 200
PRIVATE = re.compile(
    r"pass|pwd|secret|token|key|auth|cred|cookie|session|pin|otp|cvv|ssn|card|iban|account|phone|birth|age|sex|gender"
    r"|salary|income|price|amount|balance|lat|lon|lng|coord",
    re.IGNORECASE,
)
"""In names of parameters of which no number is told, either."""
TEXT = "<text>"
KINDS = (
    ("<email>", re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")),
    ("<YYYY-MM-DD>", re.compile(r"\d{4}-\d\d-\d\d")),
    ("<YYYY-MM-DDThh:mm:ssZ>", re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")),
    ("<uuid>", re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")),
    ("<url>", re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+")),
    ("<absolute path>", re.compile(r"(/|~/|[a-zA-Z]:[\\/])[^\n]*")),
    ("<relative path>", re.compile(r"(\.{1,2}|\.{0,2}[\\/]?[\w.-]+([\\/][\w.-]+)+[\\/]?|[\w-]+\.[a-z]{1,5})")),
    ("<digits>", re.compile(r"[+\d][\d ()-]*")),
    ("<JSON>", re.compile(r"\s*(\{.*\}|\[.*\])\s*", re.DOTALL)),
)
Schema = Mapping[str, Any]


def example_of(arguments: Mapping[str, Any], schema: Schema | None) -> dict[str, Any] | None:
    """``arguments`` as they may be shown; None when they tell nothing that the schema does not.

    Args:
        arguments: Of a call that worked.
        schema: ``inputSchema`` of the tool; None when it has none that can be read.
    """
    if not schema or not arguments or not fits(arguments, schema):
        return None
    made = _Examples(Document(schema)).object(arguments, schema, DEEPEST)
    needed = required(schema)
    tells = any(name not in needed or member != TEXT for name, member in made.items())
    return made if tells else None


def fits(arguments: Mapping[str, Any], schema: Schema) -> bool:
    """Whether these are arguments of the tool as it is now, by their names."""
    named = properties(schema) if "properties" in schema else arguments
    return all(name in named for name in arguments) and all(name in arguments for name in required(schema))


def kind_of_text(text: str) -> str:
    """What a text is, as a placeholder: ``<url>``; :data:`TEXT` for any."""
    if len(text) > LONGEST_TEXT:
        return TEXT
    return next((name for name, pattern in KINDS if pattern.fullmatch(text)), TEXT)


def placeholder(value: Any) -> str:
    """What stands for a value that is not shown."""
    return kind_of_text(value) if isinstance(value, str) else f"<{kind_of(value)}>"


class _Examples:
    def __init__(self, document: Document) -> None:
        self._document = document

    def object(self, value: Mapping[str, Any], schema: Schema, depth: int) -> dict[str, Any]:
        known = properties(schema)
        names = [name for name in value if name in known and is_plain(name)][:MOST_MEMBERS]
        return {name: self._value(value[name], self._flat(known[name]), name, depth) for name in names}

    def _value(self, value: Any, schema: Schema, name: str, depth: int) -> Any:
        if isinstance(value, (str, int, float)) and _is_choice(value, schema):
            return value
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int) and abs(value) <= LARGEST and not PRIVATE.search(name):
            return value
        if isinstance(value, list) and value and depth:
            return [self._value(value[0], self._flat(schema.get("items")), name, depth - 1)]
        if isinstance(value, Mapping) and depth and (inside := self.object(value, schema, depth - 1)):
            return inside
        return placeholder(value)

    def _flat(self, schema: Any) -> Schema:
        try:
            return self._document.flat(schema) if isinstance(schema, Mapping) else NOTHING
        except UnreadableError:
            return NOTHING


def _is_choice(value: Any, schema: Schema) -> bool:
    """Whether the schema itself has the value, so that nothing is told that is not known."""
    if isinstance(value, str) and len(value) > LONGEST_CHOICE:
        return False
    written = json.dumps(value)
    return any(written == json.dumps(choice, default=str) for choice in _choices(schema))


def _choices(schema: Schema) -> Iterator[Any]:
    for part in (schema, *(one for word in ("anyOf", "oneOf") for one in _listed(schema, word))):
        if isinstance(part, Mapping):
            yield from (part[word] for word in ("const", "default") if word in part)
            yield from _listed(part, "enum")
            yield from _listed(part, "examples")


def _listed(schema: Schema, word: str) -> list[Any]:
    found = schema.get(word)
    return [one for one in found[:MOST_CHOICES] if not isinstance(one, list)] if isinstance(found, list) else []
