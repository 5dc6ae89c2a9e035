"""Secrets never reach logs or records: their values are replaced wherever they stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote

MASK = "**********"
SHORTEST = 6
"""Shorter values [characters] are not taken for secrets: replacing ``1`` everywhere would garble the records."""
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?$)', re.DOTALL)
"""A string in JSON text, also the last one of a text that was cut. Nothing of it is tried in two ways, which would take
a hundred bytes of memory for each character."""
SURELY = re.compile(r"(?![/~.]|\w+:[/\\])(?=.*[A-Za-z])(?=.*[0-9])\S{16,}")
"""Secrets that are no word, path, address or number: all that a configuration refers to counts as secret, and what
servers say of their tools has to stay readable."""
BEGINNING = b"pml_"
KEY = re.compile(r"pml_[a-z2-7]{16}_[a-z2-7]{52}")
"""An API key of PML's own, whosever it is: the gateway has only their hashes, so it knows them by how they look."""
ESCAPED = re.compile(rb"\\u00(?:70|6[dDcC]|5[fF])")
"""How else the beginning of a key may be written in JSON."""


class Redactor:
    """Replaces known secret values by asterisks, in text and inside the strings of JSON."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._raws: list[bytes] = []

    def learn(self, values: Iterable[str]) -> None:
        """Add secret values, of several lines also each line: who prints them prints lines.

        Also known is how they stand in JSON within a text, and in an address. Short ones are ignored; longer ones are
        replaced first, so parts do not show.
        """
        parts = (part for value in values for part in (value, *value.splitlines()))
        known = {*self._texts, *(form for part in parts if len(part) >= SHORTEST for form in _forms(part))}
        self._texts = sorted(known, key=lambda v: (-len(v), v))
        self._raws = [v.encode("utf-8", "surrogatepass") for v in self._texts]

    @property
    def known(self) -> Sequence[str]:
        """The secret values."""
        return self._texts

    def swapped(self, text: str, swap: Callable[[str], str]) -> str:
        """``text`` with what ``swap`` makes of each secret value in its place."""
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, swap(secret))
        return text

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        text = self.swapped(text, lambda _: MASK)
        return KEY.sub(MASK, text) if "pml_" in text else text

    def description(self, text: str) -> str:
        """``text``, which people and models are to understand, without what is :data:`SURELY` a secret."""
        return self.swapped(text, lambda secret: MASK if SURELY.fullmatch(secret) else secret)

    def raw(self, raw: bytes) -> bytes:
        """JSON text without secrets; still JSON: only strings are changed, however they are escaped."""
        # Without an escape a secret stands there as it is, so most texts need one look per secret.
        escaped = b"\\" in raw and (self._raws or ESCAPED.search(raw))
        if not escaped and BEGINNING not in raw and not any(secret in raw for secret in self._raws):
            return raw
        return STRING.sub(self._string, raw)

    def _string(self, found: re.Match[bytes]) -> bytes:
        token = found[0]
        try:
            text: str = json.loads(token)
        except ValueError:  # cut off: what is left of it is compared as it is written
            return self.text(token.decode(errors="replace")).encode()
        cleaned = self.text(text)
        return token if cleaned == text else json.dumps(cleaned).encode()

    def value(self, value: Any) -> Any:
        """A JSON value without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(v) for v in value]
        return value


def _forms(text: str) -> tuple[str, ...]:
    inside = (json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (True, False))
    return text, *inside, quote(text, safe="", errors="replace")
