"""JSON objects that pass through without being parsed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_SHOWN_BYTES = 200
"""How much of an object its ``repr`` shows."""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


# Made once: json.dumps makes an encoder for each call, json.loads looks for UTF-16 first.
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
_write_ascii = json.JSONEncoder(separators=(",", ":"), default=_plain).encode
_read = json.JSONDecoder().decode


class _RepeatedKeyError(ValueError):
    """An object has two members of one name."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RepeatedKeyError
    return members


_read_unique = json.JSONDecoder(object_pairs_hook=_object).decode


def encode(value: Any) -> bytes:
    """JSON text of ``value``, compact, UTF-8.

    A :class:`RawObject` on its own gives back its bytes. Lone surrogates, which UTF-8 cannot hold, come out as escapes.

    Raises:
        TypeError: ``value`` holds something JSON has no form for.
    """
    if isinstance(value, RawObject):
        return value.raw
    text = _write(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _write_ascii(value).encode()


class RawObject(Mapping[str, Any]):
    """A JSON object that keeps the bytes it came in and decodes them on first use.

    A result that only passes through the gateway is never parsed and encoded again; a plugin that reads it sees an
    ordinary read-only mapping. Big integers, ``NaN`` and member order survive, as do members nobody knows.
    """

    __slots__ = ("_raw", "_value")

    def __init__(self, raw: bytes | None, value: dict[str, Any] | None = None) -> None:
        """Take ``raw``, the UTF-8 text of one JSON object, which is not checked here; or None and the value."""
        self._raw = raw
        self._value = value

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> RawObject:
        """``value`` itself when it is one already; otherwise one that encodes it when its bytes are asked for."""
        return value if isinstance(value, RawObject) else cls(None, dict(value))

    @property
    def raw(self) -> bytes:
        """The object as UTF-8 JSON text: as it came, or compact when it was made here."""
        if self._raw is None:
            self._raw = encode(self._value)
        return self._raw

    @property
    def value(self) -> dict[str, Any]:
        """The object decoded; the same dictionary each time, not to be changed.

        Of members with one name the last counts, and :attr:`raw` is then written anew from what was read: whoever
        judges an object judges what is sent on.

        Raises:
            ValueError: The bytes are not one JSON object.
        """
        if self._value is None:
            text = (self._raw or b"").decode("utf-8", "surrogatepass")
            repeated = False
            try:
                decoded = _read_unique(text)
            except _RepeatedKeyError:
                decoded, repeated = _read(text), True
            if not isinstance(decoded, dict):
                raise ValueError(f"expected a JSON object, found {type(decoded).__name__}")
            self._value = decoded
            if repeated:
                self._raw = None
        return self._value

    def __getitem__(self, key: str) -> Any:
        return self.value[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        text = self.raw[:_SHOWN_BYTES].decode(errors="replace")
        return f"RawObject({text}{'…' if len(self.raw) > _SHOWN_BYTES else ''})"


EMPTY = RawObject(b"{}")
"""The empty object, for messages that carry no params."""
