"""What requests of the era without a handshake say in HTTP headers.

Servers compare these with the body and refuse a request where they differ (revision 2026-07-28, transports, "Standard
headers" and "Custom headers from tool parameters").
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pml_hookspecs.protocol import HEADER_SCHEMA_KEY, META_PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pml_hookspecs import RawObject

VERSION_HEADER = "MCP-Protocol-Version"
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "task",
    "tasks/update": "task",
    "tasks/cancel": "task",
}
"""Member of the params that goes into ``Mcp-Name``, by method."""
_MARK = META_PROTOCOL_VERSION.encode()
_HEADER_MARK = HEADER_SCHEMA_KEY.encode()
_PLAIN = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

Path = tuple[str, ...]


class _Meta(msgspec.Struct):
    version: str | None = msgspec.field(default=None, name=META_PROTOCOL_VERSION)


class _Params(msgspec.Struct):
    meta: _Meta | None = msgspec.field(default=None, name="_meta")
    name: Any = None
    uri: Any = None
    task: Any = msgspec.field(default=None, name="taskId")
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


def encode_value(text: str) -> str:
    """``text`` as it can stand in a header: as it is, or as marked base64 of its UTF-8."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


class ParameterHeaders:
    """Which arguments of which tool go into headers: what ``tools/list`` results that passed by said."""

    def __init__(self) -> None:
        """Know no tool yet."""
        self._tools: dict[str, dict[Path, str]] = {}

    def learn(self, listed: RawObject, *, first_page: bool) -> None:
        """Take note of the tools on a page of the list; the first page begins anew."""
        if first_page:
            self._tools.clear()
        if _HEADER_MARK not in listed.raw:
            return
        tools = listed.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                found = {path: token for path, token in _marked(tool.get("inputSchema")) if _TOKEN.fullmatch(token)}
                if found:
                    self._tools[tool["name"]] = found

    def of(self, tool: Any, arguments: bytes) -> dict[str, str]:
        """The headers for a call of ``tool``."""
        wanted = self._tools.get(tool) if isinstance(tool, str) else None
        if not wanted:
            return {}
        values = msgspec.json.decode(arguments)
        headers = {}
        for path, token in wanted.items():
            text = _text(_at(values, path))
            if text is not None:
                headers[f"Mcp-Param-{token}"] = encode_value(text)
        return headers


def _marked(schema: Any) -> Iterator[tuple[Path, str]]:
    """Properties with a header, by their path; only those that plain ``properties`` lead to."""
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        path, here = waiting.pop()
        if not isinstance(here, dict):
            continue
        token = here.get(HEADER_SCHEMA_KEY)
        if path and isinstance(token, str):
            yield path, token
        properties = here.get("properties")
        if isinstance(properties, dict):
            waiting.extend(((*path, name), inner) for name, inner in properties.items())


def _at(value: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def headers_of(method: str, params: bytes, parameters: ParameterHeaders) -> dict[str, str]:
    """The headers that repeat what a request says; none for a request of the era with a handshake."""
    read = _read(params)
    if read is None or read.meta is None or read.meta.version is None:
        return {}
    headers = {VERSION_HEADER: encode_value(read.meta.version), "Mcp-Method": method}
    name = getattr(read, NAMED_BY[method]) if method in NAMED_BY else None
    if isinstance(name, str):
        headers["Mcp-Name"] = encode_value(name)
    if method == "tools/call":
        headers.update(parameters.of(name, bytes(read.arguments)))
    return headers
