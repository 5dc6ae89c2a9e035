"""JSON text read one level at a time, so that a part of a large value costs what the part weighs.

Of 55 MB of rows, decoded whole takes 112 to 290 MB; the first level, with the rows left as views of the text, 11 MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

Raw: TypeAlias = "bytes | str | msgspec.Raw"
"""JSON text of one value; as a member of another, a view of its text. One in ASCII is read without a copy."""
Level: TypeAlias = "Mapping[str, msgspec.Raw] | list[msgspec.Raw] | str | int | float | bool | None"
"""A value of which the members are still JSON text."""

_objects: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_arrays: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
SPACE = b" \t\r\n"
LONG, PIECE, LOOK = 4 * 2**20, 2**20, 4096
"""A text that is decoded piece by piece, a piece, and where its end is looked for [bytes]."""
IN_ESCAPES = b"\\u0123456789abcdefABCDEF"
"""Bytes that an escape consists of, but for those that end one of two bytes."""
ASCII_END = 0x80


def level(raw: Raw) -> Level:
    """The value that ``raw`` says, its members undecoded.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        first = beginning(raw)
        if first == b"{":
            return _objects.decode(raw)
        if first == b"[":
            return _arrays.decode(raw)
        scalar: str | int | float | bool | None = _anything.decode(raw)
    except (msgspec.MsgspecError, UnicodeError) as exc:
        raise ValueError(str(exc)) from exc
    return scalar


def size_of(raw: Raw) -> int:
    """About how long a value's text is [bytes]."""
    return len(raw) if isinstance(raw, str) else memoryview(raw).nbytes


def beginning(raw: Raw) -> bytes:
    """The first byte that is no space."""
    start = raw[:64].encode(errors="replace") if isinstance(raw, str) else bytes(memoryview(raw)[:64])
    return start.lstrip(SPACE)[:1]


def whole(raw: Raw) -> Any:
    """The value that ``raw`` says, decoded to its leaves.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return _anything.decode(raw)
    except (msgspec.MsgspecError, UnicodeError) as exc:
        raise ValueError(str(exc)) from exc


def long_text(raw: msgspec.Raw) -> Any:
    """As :func:`whole`; a long text is decoded piece by piece, since decoders hold another copy of one with escapes.

    Raises:
        ValueError: It is no JSON.
    """
    view = memoryview(raw)
    if view.nbytes < LONG or beginning(raw) != b'"':
        return whole(raw)
    quoted = view[bytes(view[:64]).index(b'"') + 1 : bytes(view[-64:]).rindex(b'"') - min(64, view.nbytes)]
    text = ""
    for piece in _pieces(quoted):
        # In place, as nothing else refers to the text so far: it is never there twice. A while loop is not compiled to
        # that on Python 3.11.
        text += whole(piece)
    return text


def _pieces(quoted: memoryview) -> Iterator[bytes]:
    """``quoted``, what stands between quotation marks, as JSON strings of its parts."""
    start = 0
    while start < quoted.nbytes:
        end = _end_of_piece(quoted, start)
        yield b'"' + bytes(quoted[start:end]) + b'"'
        start = end


def _end_of_piece(quoted: memoryview, start: int) -> int:
    """Where no escape and no character is cut: behind a byte that ends neither, or can be part of neither."""
    end = start + PIECE
    if end >= quoted.nbytes:
        return quoted.nbytes
    before = bytes(quoted[end - LOOK : end])
    for back in range(LOOK - 1, 0, -1):
        if before[back] < ASCII_END and before[back] not in IN_ESCAPES:
            return end - LOOK + back + 1
    return quoted.nbytes
