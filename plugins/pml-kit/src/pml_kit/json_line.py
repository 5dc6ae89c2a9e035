"""JSON text on one line, as fast as can be. Imports msgspec, so it is imported only once something is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pml_hookspecs import RawObject, encode

_WHOLE = re.compile(rb"(?:[^\\]++|\\(?:[^u]|u(?:[^dD]|[dD][0-7]|[dD][89abAB]..\\u[dD][c-fC-F]..)))*+", re.DOTALL)
"""JSON text up to the first half of a surrogate pair, whose escape is six bytes long. Steps back nowhere."""
HALF_BYTES, MOST_HALVES = 6, 10_000


def well_formed(raw: bytes) -> bytes:
    """JSON text with U+FFFD for each half of a surrogate pair: strict readers refuse a message that has one.

    Args:
        raw: UTF-8 JSON text. A half can only be an escape in it, as JavaScript writes a string that was cut in two.

    Raises:
        ValueError: There are more than :data:`MOST_HALVES`.
    """
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return raw
    parts: list[bytes] = []
    begin = 0
    while (end := _end_of_whole(raw, begin)) < len(raw):
        if len(parts) == MOST_HALVES:
            raise ValueError(f"the message has more than {MOST_HALVES} halves of surrogate pairs")
        parts.append(raw[begin:end])
        begin = end + HALF_BYTES
    return rb"\ufffd".join((*parts, raw[begin:])) if parts else raw


def _end_of_whole(raw: bytes, begin: int) -> int:
    found = _WHOLE.match(raw, begin)
    return len(raw) if found is None else found.end()


def _for_msgspec(value: Any) -> Any:
    if isinstance(value, RawObject):
        return msgspec.Raw(value.raw)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_encode = msgspec.json.Encoder(enc_hook=_for_msgspec).encode


def json_line(value: Any) -> bytes:
    """JSON text of ``value`` without line breaks, in valid UTF-8; what is no number is written as Python does.

    Raises:
        TypeError: ``value`` holds something JSON has no form for.
        ValueError: The same.
    """
    if isinstance(value, RawObject):
        raw = value.raw
    else:
        try:
            raw = _encode(value)
        except (UnicodeEncodeError, TypeError):
            raw = encode(value)
        else:
            # msgspec writes null for NaN and the infinities.
            if b"null" in raw:
                raw = encode(value)
    raw = well_formed(raw)
    # Outside strings a line break is white space, inside it cannot stand.
    return raw.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in raw or b"\r" in raw else raw
