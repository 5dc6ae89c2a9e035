"""Arguments of a tool call that are repeated in headers, ``Mcp-Param-*``.

A tool's ``inputSchema`` says which (``x-mcp-header``), so the tools are listed, as the same client would see them,
before one is called.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from pml_hookspecs import RawObject
from pml_hookspecs.protocol import HEADER_MISMATCH, HEADER_SCHEMA_KEY

from .asgi_headers import text, unwrapped
from .asgi_messages import members
from .asgi_replies import HttpError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pml_hookspecs import Handler, Origin

PREFIX, PARAM = "Mcp-Param-", b"mcp-param-"
BELIEVED_S = 5.0
"""How long it is believed what tools say."""
MAX_PAGES = 100
MIRRORED_TYPES = frozenset({"string", "integer", "boolean"})
ONE_SCHEMA = frozenset(
    {
        "items",
        "contains",
        "unevaluatedItems",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    }
)
"""Keywords of JSON Schema 2020-12 whose value is a schema; then those with a list and with a map of schemas."""
SCHEMA_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_MAP = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
_ANNOTATION = HEADER_SCHEMA_KEY.encode()
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.0+)?")


class HeaderParameter(NamedTuple):
    """An argument that a header repeats."""

    path: tuple[str, ...]
    header: str
    integer: bool


Tools: TypeAlias = Mapping[str, tuple[HeaderParameter, ...]]
"""The arguments that headers repeat, by tool; only tools that have some."""


class ListingPage(NamedTuple):
    """One page of a listing, as far as it matters here."""

    raw: bytes
    tools: Tools
    cursor: str | None


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
        self._pages: dict[str | None, ListingPage] = {}

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
        meta, cursor = bytes(members(params.raw)["_meta"]), None
        tools: dict[str, tuple[HeaderParameter, ...]] = {}
        for _ in range(MAX_PAGES):
            listed = await self._handler.request("tools/list", RawObject(_list_params(meta, cursor)), origin)
            page = self._read(cursor, RawObject.of(listed).raw)
            tools.update(page.tools)
            cursor = page.cursor
            if cursor is None:
                break
        return tools

    def _read(self, cursor: str | None, raw: bytes) -> ListingPage:
        page = self._pages.get(cursor)
        if page is None or page.raw != raw:
            if len(self._pages) >= MAX_PAGES:
                self._pages.clear()
            page = self._pages[cursor] = read_page(raw)
        return page


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


def _list_params(meta: bytes, cursor: str | None) -> bytes:
    more = b"" if cursor is None else b',"cursor":%b' % msgspec.json.encode(cursor)
    return b'{"_meta":%b%b}' % (meta, more)


def read_page(raw: bytes) -> ListingPage:
    """Read the result of ``tools/list``; what is wrong with one tool touches no other."""
    if _ANNOTATION not in raw and b'"nextCursor"' not in raw:
        return ListingPage(raw, {}, None)
    result = members(raw)
    cursor = json.loads(bytes(result.get("nextCursor", b"null")))
    tools = {}
    for definition in msgspec.json.decode(result.get("tools", Raw(b"[]")), type=list[Raw]):
        if _ANNOTATION in bytes(definition):
            tool = json.loads(bytes(definition))
            if isinstance(tool, dict) and (found := mirrors(tool.get("inputSchema"))):
                tools[str(tool.get("name"))] = found
    return ListingPage(raw, tools, cursor if isinstance(cursor, str) else None)


def mirrors(schema: Any) -> tuple[HeaderParameter, ...]:
    """Annotated properties of a schema; none when one of them is against the rules, since clients then drop the tool.

    An annotation stands on a string, integer or boolean that is reached through ``properties`` alone, is an HTTP token,
    and comes once, whatever its case.
    """
    found: dict[str, HeaderParameter] = {}
    for path, position in _positions(schema):
        if HEADER_SCHEMA_KEY not in position:
            continue
        header, kind = position[HEADER_SCHEMA_KEY], position.get("type")
        if not path or not isinstance(header, str) or not _TOKEN.fullmatch(header) or header.lower() in found:
            return ()
        if not isinstance(kind, str) or kind not in MIRRORED_TYPES:
            return ()
        found[header.lower()] = HeaderParameter(path, PREFIX + header, kind == "integer")
    return tuple(found.values())


def _positions(root: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """All schemas within a schema, with the properties that lead there; None where something else does."""
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, dict):
            continue
        yield path, schema
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, name), sub) for name, sub in value.items()]
            elif keyword in ONE_SCHEMA:
                waiting.append((None, value))
            elif keyword in SCHEMA_LIST and isinstance(value, list):
                waiting += [(None, sub) for sub in value]
            elif keyword in SCHEMA_MAP and isinstance(value, dict):
                waiting += [(None, sub) for sub in value.values()]


def disagreement(
    mirrored: tuple[HeaderParameter, ...], params: RawObject, given: Mapping[str, list[bytes]]
) -> str | None:
    """What is wrong when headers and arguments are not both there and equal, or both absent; None when nothing is."""
    arguments = params.get("arguments")
    for one in mirrored:
        if problem := _disagreement(one, arguments, given.get(one.header.lower(), [])):
            return f"{one.header} header {problem}"
    return None


def _disagreement(one: HeaderParameter, arguments: Any, given: list[bytes]) -> str | None:
    value = arguments
    for name in one.path:
        value = value.get(name) if isinstance(value, dict) else None
    where = f"the argument {'.'.join(one.path)!r}"
    if len(given) > 1:
        return "appears more than once"
    if value is None:
        return f"is present, but {where} is not" if given else None
    expected = _as_header(value)
    if not given:
        return None if expected is None else f"is missing, but {where} is present"
    actual = unwrapped(text(given[0]))
    if actual is None:
        return "is not proper base64"
    same = actual == expected or (one.integer and _same_integer(actual, value))
    return None if same else f"does not match {where}"


def _as_header(value: Any) -> str | None:
    """How a client writes a value into a header; None when there is no way."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        return None
    try:
        return str(value)
    except ValueError:
        return None


def _same_integer(actual: str, value: Any) -> bool:
    found = _DECIMAL.fullmatch(actual)
    if found is None or isinstance(value, (bool, str)) or (isinstance(value, float) and not value.is_integer()):
        return False
    try:
        return int(found[1]) == int(value)
    except ValueError:
        return False
