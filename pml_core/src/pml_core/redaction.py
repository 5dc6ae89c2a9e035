"""Secrets never reach logs or records: their values are replaced wherever they stand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

MASK = "**********"
SHORTEST = 6
"""Shorter values [characters] are not taken for secrets: replacing ``1`` everywhere would garble the records."""


class Redactor:
    """Replaces known secret values by asterisks, in text and in JSON bytes."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._raws: list[bytes] = []

    def learn(self, values: Iterable[str]) -> None:
        """Add secret values. Short ones are ignored; longer ones are replaced first, so parts do not show."""
        known = {*self._texts, *(v for v in values if len(v) >= SHORTEST)}
        self._texts = sorted(known, key=lambda v: (-len(v), v))
        forms = {
            f.encode() for v in self._texts for f in (v, json.dumps(v)[1:-1], json.dumps(v, ensure_ascii=False)[1:-1])
        }
        self._raws = sorted(forms, key=lambda v: (-len(v), v))

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def raw(self, raw: bytes) -> bytes:
        """JSON bytes without secrets; still JSON."""
        for secret in self._raws:
            if secret in raw:
                raw = raw.replace(secret, MASK.encode())
        return raw

    def value(self, value: Any) -> Any:
        """A JSON value without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(v) for v in value]
        return value
