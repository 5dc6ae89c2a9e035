"""What HTTP headers repeat of a message: clients write it, servers compare it with the body.

Whoever routes or filters by header would be led astray by one that says something else (MCP 2026-07-28, "Streamable
HTTP": standard request headers, custom headers from tool parameters).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from pml_kit.json_members import split
from pml_kit.mcp.protocol import HEADER_SCHEMA_KEY

SESSION, VERSION = "Mcp-Session-Id", "MCP-Protocol-Version"
METHOD, NAME, PARAM = "Mcp-Method", "Mcp-Name", "Mcp-Param-"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose object :data:`NAME` repeats, and where in the params it stands."""
NAMED_IF_SENT = {"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
"""The same for methods of an extension, whose clients do not all send the header."""
MIRRORED_TYPES = {"string", "integer", "boolean"}
ONE_SCHEMA = (
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "contentSchema"}
)  # fmt: skip
"""Keywords of JSON Schema 2020-12 whose value is a schema; then those with a list and with a map of schemas."""
SCHEMA_LIST = {"allOf", "anyOf", "oneOf", "prefixItems"}
SCHEMA_MAP = {"patternProperties", "dependentSchemas", "$defs", "definitions"}
MOST_DIGITS = 4000
"""Longer numbers are no numbers to Python, and go as they came."""
_ANNOTATION = HEADER_SCHEMA_KEY.encode()
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.0+)?")


def encode_value(text: str) -> str:
    """``text`` as it can stand in a header: as it is, or as marked base64 of its UTF-8."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


def decode_value(value: str | None) -> str | None:
    """What :func:`encode_value` was given; None where there is none, or its base64 is broken."""
    found = None if value is None else _ENCODED.fullmatch(value)
    if found is None:
        return value
    try:
        plain = base64.b64decode(found[1], validate=True)
        # One text has one encoding; others are for smuggling.
        return plain.decode() if base64.b64encode(plain).decode() == found[1] else None
    except (binascii.Error, ValueError):
        return None


class HeaderParameter(NamedTuple):
    """An argument that a header repeats."""

    path: tuple[str, ...]
    header: str
    kind: str
    """Type in the schema; empty where it says none, or several."""


Parameters: TypeAlias = tuple[HeaderParameter, ...]


def sent_parameters(schema: Any) -> Parameters:
    """Annotated properties of an ``inputSchema``, as far as a header can be made of them."""
    return tuple(one for one in _annotations(schema) if one is not None)


def checked_parameters(schema: Any) -> Parameters:
    """The same; none when one annotation is against the rules, since clients then drop the tool.

    An annotation stands on a string, integer or boolean that is reached through ``properties`` alone, is an HTTP token,
    and comes once, whatever its case.
    """
    found: dict[str, HeaderParameter] = {}
    for one in _annotations(schema):
        if one is None or one.kind not in MIRRORED_TYPES or one.header.lower() in found:
            return ()
        found[one.header.lower()] = one
    return tuple(found.values())


def _annotations(schema: Any) -> Iterator[HeaderParameter | None]:
    """Every annotation in a schema; None for one of which no header can be made."""
    for path, position in _positions(schema):
        if HEADER_SCHEMA_KEY in position:
            token, kind = position[HEADER_SCHEMA_KEY], position.get("type")
            if path and isinstance(token, str) and _TOKEN.fullmatch(token):
                yield HeaderParameter(path, PARAM + token, kind if isinstance(kind, str) else "")
            else:
                yield None


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


def tools_of(page: bytes, read: Callable[[Any], Parameters]) -> dict[str, Parameters]:
    """What the tools in a result of ``tools/list`` say about headers; only those that say something.

    ``read`` takes a schema. What is wrong with one tool touches no other.
    """
    tools: dict[str, Parameters] = {}
    if _ANNOTATION not in page:
        return tools
    try:
        definitions = msgspec.json.decode(split(page).get("tools", Raw(b"[]")), type=list[Raw])
    except (ValueError, RecursionError):
        return tools
    for definition in map(bytes, definitions):
        if _ANNOTATION not in definition:
            continue
        try:
            tool = json.loads(definition, parse_int=float)  # none matters here, and int() takes so many digits only
        except (ValueError, RecursionError):
            continue
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and (found := read(tool.get("inputSchema"))):
            tools[tool["name"]] = found
    return tools


def argument(arguments: bytes | Raw, path: tuple[str, ...]) -> bytes:
    """The JSON text of the argument at ``path``; empty where there is none, or null."""
    here = bytes(arguments)
    for name in path:
        try:
            members: Mapping[str, Raw] = split(here) if here[:1] == b"{" else {}
        except ValueError:
            return b""
        here = bytes(members.get(name, b""))
    return b"" if here == b"null" else here


def argument_text(argument: bytes) -> str | None:
    """How an argument is written into a header, before :func:`encode_value`; None when there is no way."""
    if argument[:1] in (b"", b"{", b"["):
        return None
    if len(argument) > MOST_DIGITS and (digits := argument.decode()).removeprefix("-").isdecimal():
        return digits
    value = json.loads(argument)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def is_same_integer(text: str, argument: bytes) -> bool:
    """Whether the text of a header and the JSON text of an argument are one integer, as ``42`` and ``42.0`` are."""
    found = _DECIMAL.fullmatch(text)
    if found is None or argument[:1] not in b"-0123456789":
        return False
    try:
        value = json.loads(argument)
        return (isinstance(value, int) or value.is_integer()) and int(found[1]) == int(value)
    except ValueError:
        return False
