"""Whether the headers of a request without handshake agree with its body, and whether it says what it must.

A tool's ``inputSchema`` says which arguments headers repeat (``x-mcp-header``), so the tools are listed, as the same
client would see them, before one is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw

from pml_hookspecs import RawObject
from pml_kit.mcp.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    META_CLIENT_CAPABILITIES,
    META_PROTOCOL_VERSION,
    MODERN_REVISIONS,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from pml_transport_http import headers as names
from pml_transport_http.headers import NAMED, NAMED_IF_SENT, HeaderParameter, Parameters, decode_value

from .http import HttpError
from .messages import members, meta_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pml_hookspecs import Handler, Origin
    from pml_kit.jsonrpc.envelope import Message

SESSION, VERSION, METHOD, NAME, PARAM = (
    name.lower().encode() for name in (names.SESSION, names.VERSION, names.METHOD, names.NAME, names.PARAM)
)
PLAIN, EVENTS = "application/json", "text/event-stream"
ROUTING = (VERSION, METHOD, NAME)
REQUIRED = (META_PROTOCOL_VERSION, META_CLIENT_CAPABILITIES)
BELIEVED_S = 5.0
"""How long it is believed what tools say."""
MAX_PAGES = 100
NULL = Raw(b"null")


def text(value: bytes | None) -> str | None:
    """A header's value without the white space around it."""
    return None if value is None else value.strip(b" \t").decode("latin-1")


def check_accept(headers: Mapping[bytes, bytes], *needed: str) -> None:
    """See that the client takes what it may get.

    Raises:
        HttpError: It does not; with status 406.
    """
    accept = headers.get(b"accept")
    # Without the header anything goes (RFC 9110, 12.5.1).
    if accept is not None and not _accepts(accept).issuperset(needed):
        raise HttpError(406, INVALID_REQUEST, f"Accept must list {' and '.join(needed)}")


@lru_cache(maxsize=64)
def _accepts(accept: bytes) -> frozenset[str]:
    listed = {item.split(";")[0].strip().lower() for item in accept.decode("latin-1").split(",")}
    return frozenset(kind for kind in (PLAIN, EVENTS) if listed & {kind, f"{kind.partition('/')[0]}/*", "*/*"})


@lru_cache(maxsize=64)
def is_json(content_type: bytes) -> bool:
    """Whether a body is said to be JSON."""
    return content_type.decode("latin-1").split(";")[0].strip().lower() == PLAIN


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
        required = " and ".join(REQUIRED)
        raise HttpError(400, INVALID_PARAMS, f"params._meta must be an object with {required}", id=message.id)
    if missing := [key for key in REQUIRED if key not in meta]:
        raise HttpError(400, INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}", id=message.id)
    version = _decoded(meta[META_PROTOCOL_VERSION])
    if not isinstance(version, str) or text(headers.get(VERSION)) != version:
        raise _mismatch(names.VERSION, f"params._meta[{META_PROTOCOL_VERSION!r}]", message.id)
    if text(headers.get(METHOD)) != message.method:
        raise _mismatch(names.METHOD, "the method", message.id)
    where = NAMED.get(str(message.method))
    if where is None and NAME in headers:
        where = NAMED_IF_SENT.get(str(message.method))
    if where is not None:
        name = _decoded(members(bytes(message.params)).get(where, NULL))  # type: ignore[arg-type]
        if name is not None and decode_value(text(headers.get(NAME))) != name:
            raise _mismatch(names.NAME, f"params.{where}", message.id)
    if version not in MODERN_REVISIONS:
        raise unsupported(version, message.id)


def _decoded(raw: Raw) -> Any:
    """A value; its text where it is a number that is too long to be one."""
    try:
        return msgspec.json.decode(raw)
    except ValueError:
        return bytes(raw)


def _mismatch(header: str, what: str, id: Any) -> HttpError:
    return HttpError(400, HEADER_MISMATCH, f"{header} header does not match {what} in the body", id=id)


def unsupported(version: str, id: Any = None, supported: tuple[str, ...] = MODERN_REVISIONS) -> HttpError:
    """Say which revisions there are."""
    data = {"supported": list(supported), "requested": version}
    return HttpError(400, UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", id=id, data=data)


# Arguments of a tool call.

Tools: TypeAlias = Mapping[str, Parameters]
"""The arguments that headers repeat, by tool; only tools that have some."""


class HeaderParameters:
    """What a handler's tools say about headers.

    Listing all tools can cost more than calling one, so what they say is believed for a while; but nobody is refused
    without a fresh look.
    """

    def __init__(self, handler: Handler, log: Any) -> None:
        self._handler, self._log = handler, log
        self._tools: Tools | None = None
        self._stale_at = 0.0
        self._first = asyncio.Lock()

    async def check(self, params: RawObject, headers: Iterable[tuple[bytes, bytes]], origin: Origin) -> None:
        """See that the arguments of a tool call agree with the headers that repeat them.

        Raises:
            HttpError: They do not.
        """
        given = _given(headers)
        tools, fresh = await self._known(params, origin)
        if not tools and not given:
            return
        name = _name_of(params)
        if not fresh and (given if name not in tools else disagreement(tools[name], params, given)):
            tools = await self._look(params, origin)
        if name in tools and (problem := disagreement(tools[name], params, given)):
            raise HttpError(400, HEADER_MISMATCH, problem)

    async def _known(self, params: RawObject, origin: Origin) -> tuple[Tools, bool]:
        """What is known of the tools, and whether that is fresh."""
        if self._tools is None:
            async with self._first:
                if self._tools is None:
                    return await self._look(params, origin), True
        if asyncio.get_running_loop().time() >= self._stale_at:
            return await self._look(params, origin), True
        return self._tools, False

    async def _look(self, params: RawObject, origin: Origin) -> Tools:
        # Others need not wait for the same, they have what was known before.
        self._stale_at = asyncio.get_running_loop().time() + BELIEVED_S
        try:
            self._tools = await self._listed(params, origin)
        except Exception as error:
            # Whatever is wrong with the listing, the call itself shall not suffer.
            self._log.warning("http.tools_not_listed", problem=str(error) or type(error).__name__)
            self._tools = self._tools or {}
        return self._tools

    async def _listed(self, params: RawObject, origin: Origin) -> Tools:
        meta, more = bytes(members(params.raw)["_meta"]), b""
        tools: dict[str, Parameters] = {}
        for _ in range(MAX_PAGES):
            asked = RawObject(b'{"_meta":%b%b}' % (meta, more))
            page = RawObject.of(await self._handler.request("tools/list", asked, origin)).raw
            tools |= names.tools_of(page, names.checked_parameters)
            cursor = bytes(members(page).get("nextCursor", b"")) if b'"nextCursor"' in page else b""
            if cursor[:1] != b'"':
                break
            more = b',"cursor":' + cursor
        return tools


def _name_of(params: RawObject) -> str:
    try:
        return msgspec.json.decode(members(params.raw)["name"], type=str)
    except (ValueError, KeyError):
        return ""


def _given(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[bytes]]:
    """Headers that may repeat arguments, with all their values."""
    given: dict[str, list[bytes]] = {}
    for name, value in headers:
        if name.startswith(PARAM):
            given.setdefault(name.decode("latin-1"), []).append(value)
    return given


def disagreement(parameters: Parameters, params: RawObject, given: Mapping[str, list[bytes]]) -> str | None:
    """What is wrong when headers and arguments are not both there and equal, or both absent; None when nothing is."""
    arguments = members(params.raw).get("arguments", NULL)
    for one in parameters:
        if problem := _disagreement(one, names.argument(arguments, one.path), given.get(one.header.lower(), [])):
            return f"{one.header} header {problem}"
    return None


def _disagreement(one: HeaderParameter, argument: bytes, given: list[bytes]) -> str | None:
    where = f"the argument {'.'.join(one.path)!r}"
    if len(given) > 1:
        return "appears more than once"
    if not argument:
        return f"is present, but {where} is not" if given else None
    expected = names.argument_text(argument)
    if not given:
        return None if expected is None else f"is missing, but {where} is present"
    actual = decode_value(text(given[0]))
    if actual is None:
        return "is not proper base64"
    same = actual == expected or (one.kind == "integer" and names.is_same_integer(actual, argument))
    return None if same else f"does not match {where}"
