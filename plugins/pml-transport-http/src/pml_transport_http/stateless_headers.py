"""The headers of a request of the era without a handshake, as a client writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pml_kit.mcp.protocol import META_PROTOCOL_VERSION

from .headers import (
    METHOD,
    NAME,
    NAMED,
    NAMED_IF_SENT,
    VERSION,
    Parameters,
    argument,
    argument_text,
    encode_value,
    sent_parameters,
    tools_of,
)

if TYPE_CHECKING:
    from pml_hookspecs import RawObject

NAMED_BY = NAMED | NAMED_IF_SENT
_MARK = META_PROTOCOL_VERSION.encode()


class _Meta(msgspec.Struct):
    version: str | None = msgspec.field(default=None, name=META_PROTOCOL_VERSION)


class _Params(msgspec.Struct):
    meta: _Meta | None = msgspec.field(default=None, name="_meta")
    name: Any = None
    uri: Any = None
    taskId: Any = None  # noqa: N815 - as in the message
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Params).decode


def revision_of(params: bytes) -> str | None:
    """The revision that a request names in its ``_meta``; None for a request of the era with a handshake."""
    read = _read(params)
    return read.meta.version if read is not None and read.meta is not None else None


def _read(params: bytes) -> _Params | None:
    if _MARK not in params:
        return None
    try:
        return _decode(params)
    except (ValueError, RecursionError):
        return None


class ParameterHeaders:
    """Which arguments of which tool go into headers: what ``tools/list`` results that passed by said."""

    def __init__(self) -> None:
        """Know no tool yet."""
        self._tools: dict[str, Parameters] = {}

    def learn(self, listed: RawObject, *, first_page: bool) -> None:
        """Take note of the tools on a page of the list; the first page begins anew."""
        if first_page:
            self._tools.clear()
        self._tools |= tools_of(listed.raw, sent_parameters)

    def of(self, tool: Any, arguments: bytes) -> dict[str, str]:
        """The headers for a call of ``tool``."""
        parameters = self._tools.get(tool, ()) if isinstance(tool, str) else ()
        written = ((one.header, argument_text(argument(arguments, one.path))) for one in parameters)
        return {header: encode_value(text) for header, text in written if text is not None}


def headers_of(method: str, params: bytes, parameters: ParameterHeaders) -> dict[str, str]:
    """The headers that repeat what a request says; none for a request of the era with a handshake."""
    read = _read(params)
    if read is None or read.meta is None or read.meta.version is None:
        return {}
    headers = {VERSION: encode_value(read.meta.version), METHOD: method}
    name = getattr(read, NAMED_BY[method]) if method in NAMED_BY else None
    if isinstance(name, str):
        headers[NAME] = encode_value(name)
    if method == "tools/call":
        headers.update(parameters.of(name, bytes(read.arguments)))
    return headers
