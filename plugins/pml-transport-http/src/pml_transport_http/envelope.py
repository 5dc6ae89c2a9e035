"""JSON-RPC messages to and from bytes, without parsing what they carry.

Imports msgspec, so it is imported only once a server is being connected to.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pml_hookspecs import encode, well_formed

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING = b"{}"
"""Params of a notification that has none."""
SHOWN = 200
"""How much of a message goes into logs and errors [bytes]."""


class Message(msgspec.Struct, gc=False):
    """One message, decoded no further than needed to tell what it is and where it goes."""

    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(Message).decode


def decode(data: bytes) -> list[Message]:
    """Read a message, or a batch of them; what is no message in a batch is left out.

    Raises:
        ValueError: It is not JSON, or not a message.
        RecursionError: Nested too deeply.
    """
    try:
        if not data.isascii():
            # msgspec checks the strings it decodes, not those inside a Raw.
            data.decode()
        return [_decode(data)]
    except ValueError:
        return _decode_leniently(data)


def _decode_leniently(data: bytes) -> list[Message]:
    """Batches, odd ids, ``NaN``, broken text."""
    value = json.loads(data.decode(errors="replace").lstrip("\ufeff"), strict=False)
    items = value if isinstance(value, list) else [value]
    messages = [message for message in map(_message, items) if message is not None]
    if not messages:
        raise ValueError("no JSON-RPC message")
    return messages


def _message(value: Any) -> Message | None:
    if not isinstance(value, dict):
        return None
    method = value.get("method", UNSET)
    if not (method is UNSET or isinstance(method, str)) or isinstance(value.get("id"), (bool, list, dict)):
        return None
    raw = {name: Raw(encode(value[name])) for name in ("params", "result", "error") if name in value}
    return Message(id=value.get("id", UNSET), method=method, **raw)


def own_id(value: Any) -> int | None:
    """Our request id that a response's id stands for; ``"5"`` and ``5.0`` are 5. None when it cannot be ours."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        return int(value) if len(value) < 19 and value.isascii() and value.isdigit() else None  # noqa: PLR2004 - 64 bit
    return value if isinstance(value, int) else None


def error_of(raw: bytes) -> tuple[int, str, Any]:
    """Code, message and data of a response's ``error``; code -32603 where there is none to be had."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return -32603, shown(raw), None
    if not isinstance(value, dict):
        return -32603, value if isinstance(value, str) else raw.decode(), None
    code, message = value.get("code"), value.get("message")
    if not isinstance(code, int) or isinstance(code, bool):
        code = -32603
    return code, message if isinstance(message, str) else raw.decode(), value.get("data")


@lru_cache(maxsize=256)
def _name(method: str) -> bytes:
    return encode(method)


def request(id: int, method: str, params: bytes) -> bytes:
    """A request of ours."""
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (id, _name(method), well_formed(params))


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification of ours; without params where there are none."""
    body = well_formed(encode(params))
    if body == NOTHING:
        return b'{"jsonrpc":"2.0","method":%b}' % _name(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_name(method), body)


def result(id: Any, value: Mapping[str, Any]) -> bytes:
    """The answer to a request of the server's. ``id`` goes back as it came."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id), well_formed(encode(value)))


def error(id: Any, wire: Mapping[str, Any]) -> bytes:
    """The error answer to a request of the server's."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(id), well_formed(encode(wire)))


def shown(data: bytes) -> str:
    """The head of what a server said, for people."""
    text = data[:SHOWN].decode(errors="replace").strip()
    return f"{text}…" if len(data) > SHOWN else text
