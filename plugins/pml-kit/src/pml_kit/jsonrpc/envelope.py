"""JSON-RPC messages to and from lines, without parsing what they carry.

Imports msgspec, so it is imported only once a server is being connected to or a client served.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pml_hookspecs import encode
from pml_kit.json_line import json_line

if TYPE_CHECKING:
    from .framing import OversizedLine

NOTHING = b"{}"
"""Params of a notification that has none."""
APART = 16 * 1024
"""From this size on a body is handed on as it is, instead of being copied into its line [bytes]."""
CHECKED_AT_ONCE = 1 << 20
NAME_KEPT = 100
"""Longest method name that is kept encoded [characters]."""


class Message(msgspec.Struct, gc=False):
    """One message, decoded no further than needed to tell what it is and where it goes."""

    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(Message).decode


def decode(line: bytes) -> Message:
    """Read a line as it should be.

    Raises:
        ValueError: It is not that; :func:`decode_leniently` may still make something of it.
        RecursionError: Nested too deeply.
    """
    if not line.isascii():
        _check_utf8(line)
    return _decode(line)


def _check_utf8(line: bytes) -> None:
    # msgspec checks strings it decodes, not those inside a Raw. Piecemeal, because the text of a line with one
    # character outside the basic plane takes four times its size.
    check = codecs.getincrementaldecoder("utf-8")().decode
    for start in range(0, len(line), CHECKED_AT_ONCE):
        check(line[start : start + CHECKED_AT_ONCE])
    check(b"", final=True)


def decode_leniently(line: bytes) -> list[Message | None]:
    """Read a line that :func:`decode` refused: batches, odd ids, ``NaN``, broken text.

    Returns:
        One item per message: None where it is no message. Empty for a blank line.

    Raises:
        ValueError: Not JSON.
        RecursionError: Nested too deeply.
    """
    text = line.decode(errors="replace").lstrip("\ufeff").strip()
    if not text:
        return []
    value = json.loads(text, strict=False)
    return [_message(item) for item in value] if isinstance(value, list) and value else [_message(value)]


def _message(value: Any) -> Message | None:
    if not isinstance(value, dict):
        return None
    method = value.get("method", UNSET)
    if not (method is UNSET or isinstance(method, str)) or not _is_id(value.get("id")):
        return None
    raw = {name: Raw(encode(value[name])) for name in ("params", "result", "error") if name in value}
    return Message(id=value.get("id", UNSET), method=method, **raw)


def _is_id(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, (int, str)) and not isinstance(value, bool))


def own_id(value: Any) -> int | None:
    """Our request id that a response's id stands for; ``"5"`` and ``5.0`` are 5. None when it cannot be ours."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        return int(value) if len(value) < 19 and value.isascii() and value.isdigit() else None  # noqa: PLR2004 - 64 bit
    return value if isinstance(value, int) else None


_VERSION = rb'"jsonrpc"\s*:\s*"[^"]*"\s*'
_START = rb"\{\s*(?:" + _VERSION + rb",\s*)?"
_ID = rb'"id"\s*:\s*"?(\d{1,18})"?\s*'
_RECOVERED = (
    # A response cut off or broken behind its id; "method" would make it a request of the peer's.
    re.compile(rb"\s*" + _START + _ID + rb'(?:$|\}|,(?!\s*"method"))'),
    # The same behind text that was printed without a line feed.
    re.compile(rb".*?\{\s*" + _VERSION + rb",\s*" + _ID + rb',\s*"(?:result|error)"'),
)
_BEGINS_AS_RESPONSE = re.compile(rb"\s*" + _START + rb'"(?:result|error)"')
_ENDS_IN_ID = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*$")


def recover_id(line: bytes | OversizedLine) -> int | None:
    """Our request id in an answer that cannot be read; None when the line does not look like an answer.

    Only where the id of an envelope can stand: some ``"id"`` further in must not fail another request.
    """
    from .framing import KEPT

    head, tail = (line[:KEPT], line[-KEPT:]) if isinstance(line, bytes) else (line.head, line.tail)
    for pattern in _RECOVERED:
        if found := pattern.match(head):
            return int(found[1])
    if _BEGINS_AS_RESPONSE.match(head) and (found := _ENDS_IN_ID.search(tail)):
        return int(found[1])
    return None


def error_of(raw: bytes) -> tuple[int, str, Any]:
    """Code, message and data of a response's ``error``; code -32603 where there is none to be had."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):  # JSON that Python does not decode: a number of 5000 digits, say
        value = None
    if not isinstance(value, dict):
        return -32603, value if isinstance(value, str) else raw.decode(), None
    code, message = value.get("code"), value.get("message")
    if not isinstance(code, int) or isinstance(code, bool):
        code = -32603
    return code, message if isinstance(message, str) else raw.decode(), value.get("data")


def _name(method: str) -> bytes:
    return _kept_name(method) if len(method) <= NAME_KEPT else encode(method)


@lru_cache(maxsize=256)
def _kept_name(method: str) -> bytes:
    return encode(method)


def request(id: int, method: str, body: bytes) -> tuple[bytes, ...]:
    """A request of ours with the params ``body``, as pieces of one line."""
    if len(body) < APART:
        return (b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (id, _name(method), body),)
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":' % (id, _name(method)), body, b"}\n"


def notification(method: str, params: Mapping[str, Any]) -> tuple[bytes, ...]:
    """A notification, as pieces of one line; without params where there are none."""
    body = json_line(params)
    if body == NOTHING:
        return (b'{"jsonrpc":"2.0","method":%b}\n' % _name(method),)
    return b'{"jsonrpc":"2.0","method":%b,"params":' % _name(method), body, b"}\n"


def result(id: Any, value: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The answer to a request of the peer's, as pieces of one line. ``id`` goes back as it came."""
    body, name = json_line(value), b"%d" % id if type(id) is int else encode(id)
    if len(body) < APART:
        return (b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (name, body),)
    return b'{"jsonrpc":"2.0","id":%b,"result":' % name, body, b"}\n"


def error(id: Any, wire: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The error answer to a request of the peer's, as pieces of one line."""
    return (b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (encode(id), json_line(wire)),)
