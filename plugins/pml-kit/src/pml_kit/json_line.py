"""JSON text on one line, as fast as can be. Imports msgspec, so it is imported only once something is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pml_hookspecs import RawObject, encode, well_formed


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
