"""What a request without handshake must say about itself, in its body and once more in its headers.

Servers must refuse a request whose headers say something else than its body: whoever routes or filters by header would
be led astray (MCP 2026-07-28, "Streamable HTTP", standard request headers).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

import msgspec

from pml_hookspecs.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    META_CLIENT_CAPABILITIES,
    META_PROTOCOL_VERSION,
    MODERN_REVISIONS,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from .asgi_messages import members, meta_of
from .asgi_replies import HttpError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .envelope import Message

VERSION, METHOD, NAME = b"mcp-protocol-version", b"mcp-method", b"mcp-name"
ROUTING = (VERSION, METHOD, NAME)
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose object the header ``Mcp-Name`` repeats, and where in the params it stands."""
NAMED_IF_SENT = {"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
"""The same for methods of an extension, whose clients do not all send the header."""
REQUIRED = (META_PROTOCOL_VERSION, META_CLIENT_CAPABILITIES)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def check_repeated(headers: Mapping[bytes, bytes], raw: Iterable[tuple[bytes, bytes]], id: Any) -> None:
    """See that no header that requests are routed by comes twice.

    Raises:
        HttpError: One does; readers of the first and of the last would disagree.
    """
    raw = list(raw)
    if len(raw) != len(headers):
        for name in ROUTING:
            if sum(key == name for key, _ in raw) > 1:
                raise HttpError(400, HEADER_MISMATCH, f"{name.decode()} header appears more than once", id=id)


def check_version(headers: Mapping[bytes, bytes]) -> None:
    """See that a notification follows a revision we know.

    Raises:
        HttpError: It does not.
    """
    version = text(headers.get(VERSION)) or ""
    if version not in MODERN_REVISIONS:
        raise unsupported(version)


def check_envelope(headers: Mapping[bytes, bytes], message: Message) -> None:
    """See that a request is complete and that its headers agree with it.

    Raises:
        HttpError: The first thing found wrong; with status 400.
    """
    meta = meta_of(message)
    if meta is None:
        names = " and ".join(REQUIRED)
        raise HttpError(400, INVALID_PARAMS, f"params._meta must be an object with {names}", id=message.id)
    if missing := [key for key in REQUIRED if key not in meta]:
        raise HttpError(400, INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}", id=message.id)
    version = _decoded(meta[META_PROTOCOL_VERSION])
    if text(headers.get(VERSION)) != version or version is None:
        raise _mismatch("MCP-Protocol-Version", f"params._meta[{META_PROTOCOL_VERSION!r}]", message.id)
    if text(headers.get(METHOD)) != message.method:
        raise _mismatch("Mcp-Method", "the method", message.id)
    _check_name(headers, message)
    if version not in MODERN_REVISIONS:
        raise unsupported(version, message.id)


def _check_name(headers: Mapping[bytes, bytes], message: Message) -> None:
    where = NAMED.get(str(message.method))
    if where is None and NAME in headers:
        where = NAMED_IF_SENT.get(str(message.method))
    if where is None:
        return
    name = _decoded(members(bytes(message.params)).get(where, msgspec.Raw(b"null")))  # type: ignore[arg-type]
    if name is not None and unwrapped(text(headers.get(NAME))) != name:
        raise _mismatch("Mcp-Name", f"params.{where}", message.id)


def _decoded(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


def _mismatch(header: str, what: str, id: Any) -> HttpError:
    return HttpError(400, HEADER_MISMATCH, f"{header} header does not match {what} in the body", id=id)


def unsupported(version: str, id: Any = None, supported: tuple[str, ...] = MODERN_REVISIONS) -> HttpError:
    """Say which revisions there are."""
    data = {"supported": list(supported), "requested": version}
    return HttpError(400, UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", id=id, data=data)


def text(value: bytes | None) -> str | None:
    """A header's value without the white space around it."""
    return None if value is None else value.strip(b" \t").decode("latin-1")


def unwrapped(value: str | None) -> str | None:
    """What stands in ``=?base64?…?=``; the value itself where it is not in there, None where that is broken."""
    found = None if value is None else _ENCODED.fullmatch(value)
    if found is None:
        return value
    try:
        plain = base64.b64decode(found[1], validate=True)
        # One text has one encoding; others are for smuggling.
        return plain.decode() if base64.b64encode(plain).decode() == found[1] else None
    except (binascii.Error, ValueError):
        return None
