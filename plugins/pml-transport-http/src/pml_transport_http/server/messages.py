"""JSON-RPC messages of clients, read strictly, and what is said to clients, written without encoding results anew.

Imports msgspec, so it is imported only once clients are being served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from pml_hookspecs import EMPTY, RawObject, encode
from pml_kit import json_members
from pml_kit.json_line import json_line
from pml_kit.jsonrpc.envelope import NOTHING, Message
from pml_kit.mcp.protocol import INVALID_PARAMS, INVALID_REQUEST, META_PROTOCOL_VERSION, PARSE_ERROR

from .http import HttpError

_decode = msgspec.json.Decoder(Message).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_MODERN = META_PROTOCOL_VERSION.encode()
TRACEPARENT = b"traceparent"
TRACE_CONTEXT = (TRACEPARENT, b"tracestate", b"baggage")
"""Headers of W3C Trace Context and Baggage, and keys of ``_meta``."""


class Call(NamedTuple):
    """A client's request."""

    key: int | str
    method: str
    params: RawObject


def read(body: bytes) -> Message:
    """The one message in a request's body: a request, a notification or a response.

    Raises:
        HttpError: It is none; with status 400.
    """
    try:
        if not body.isascii():
            # msgspec checks the strings it decodes, not those inside a Raw.
            body.decode()
        message = _decode(body)
    except msgspec.ValidationError as error:
        raise HttpError(400, INVALID_REQUEST, _why_not(body, error)) from None
    except (ValueError, RecursionError) as error:
        raise HttpError(400, PARSE_ERROR, f"Parse error: the body is not JSON ({error})") from None
    if message.method is UNSET:
        if message.result is UNSET and message.error is UNSET:
            raise HttpError(400, INVALID_REQUEST, "The body has no method, and neither result nor error")
    elif message.id is None:
        raise HttpError(400, INVALID_REQUEST, "The id of a request must be a string or an integer, not null")
    return message


def _why_not(body: bytes, error: Exception) -> str:
    if body.lstrip()[:1] == b"[":
        return "Batches are not supported: send each message in a request of its own"
    return f"The body must be a single JSON-RPC message object ({error})"


def params_of(message: Message) -> RawObject:
    """What a request or notification carries; the empty object for nothing.

    Raises:
        HttpError: It is not an object.
    """
    if message.params is UNSET:
        return EMPTY
    raw = bytes(message.params)
    if raw[:1] != b"{":
        if raw == b"null":
            return EMPTY
        raise HttpError(400, INVALID_PARAMS, "params must be an object", id=message.id)
    return RawObject(raw)


def call_of(message: Message, headers: Mapping[bytes, bytes]) -> Call:
    """The request that a message is, with the trace context of its ``headers`` unless ``_meta`` has one.

    Raises:
        HttpError: It has no proper params, or no id.
    """
    if not isinstance(message.id, (int, str)):
        raise HttpError(400, INVALID_REQUEST, "A request needs an id that is a string or an integer")
    return Call(message.id, str(message.method), _traced(params_of(message), headers))


def _traced(params: RawObject, headers: Mapping[bytes, bytes]) -> RawObject:
    if TRACEPARENT not in headers or (TRACEPARENT in params.raw and "traceparent" in json_members.meta_of(params)):
        return params
    context = {name.decode(): headers[name].decode("latin-1") for name in TRACE_CONTEXT if name in headers}
    return json_members.with_meta(params, context)


def members(raw: bytes) -> dict[str, Raw]:
    """Members of a JSON object, undecoded.

    Raises:
        ValueError: It is no object.
    """
    return _members(raw)


def meta_of(message: Message) -> dict[str, Raw] | None:
    """Members of ``params._meta``; None when there is no such object."""
    try:
        return _members(_members(bytes(message.params))["_meta"]) if isinstance(message.params, Raw) else None
    except (ValueError, KeyError):
        return None


def says_modern(message: Message) -> bool:
    """Whether a message says in its ``_meta`` that it follows a revision without handshake."""
    if not isinstance(message.params, Raw) or _MODERN not in bytes(message.params):
        return False
    return META_PROTOCOL_VERSION in (meta_of(message) or ())


def result(id: Any, value: Mapping[str, Any]) -> tuple[bytes, bytes, bytes]:
    """The answer to a client's request, in pieces. ``id`` goes back as it came."""
    name = b"%d" % id if type(id) is int else encode(id)
    return b'{"jsonrpc":"2.0","id":%b,"result":' % name, json_line(value), b"}"


def error(id: Any, wire: Mapping[str, Any]) -> tuple[bytes]:
    """The error answer to a client's request, in pieces."""
    return (b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(id), json_line(wire)),)


def request(id: int, method: str, params: Mapping[str, Any]) -> bytes:
    """A request to a client."""
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (id, encode(method), json_line(params))


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification to a client; without params where there are none."""
    body = json_line(params)
    if body == NOTHING:
        return b'{"jsonrpc":"2.0","method":%b}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), body)
