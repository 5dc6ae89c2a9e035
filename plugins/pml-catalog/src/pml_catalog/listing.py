"""Read a server's lists, page by page, and keep what is usable of its tools."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from pml_hookspecs import CatalogEntry, RawObject, RpcError, TransportError, encode
from pml_kit.json_members import split
from pml_kit.mcp.protocol import METHOD_NOT_FOUND
from pml_kit.mcp.tool_schemas import problem_of

from .lengths import TEXT
from .live import make_entry
from .paging import ServerList

_LIST = msgspec.json.Decoder(list[msgspec.Raw])
Kind = Literal["resources", "templates", "prompts"]
Ask: TypeAlias = Callable[[str, RawObject], Awaitable[RawObject]]
DIGITS = 4000
"""Of an integer, from which on it is no number to Python."""
NO_ITEMS, NULL = msgspec.Raw(b"[]"), msgspec.Raw(b"null")

DEFINITION_BYTES = 512 * 1024
"""Longest description of one tool, resource or prompt; a longer one is left out."""
LIST_BYTES = 128 * 1024 * 1024
"""Longest page of a list."""
TURN_BYTES = 128 * 1024
"""What is read of a list at one go."""
NAME_CHARACTERS = 1024
"""Of a tool; MCP asks for 128 at most."""
LONGEST_FRESH_MS = 86_400_000
"""More than a day is taken for a day."""
MOST_PAGES = 1000
"""Pages of one list that are asked for; more is taken for a server that pages in circles."""


@dataclass(frozen=True, slots=True)
class ListMethod:
    """How one kind of feature is listed (MCP, server features)."""

    method: str
    member: str
    key: str
    capability: str


LISTINGS: Mapping[Kind, ListMethod] = {
    "resources": ListMethod("resources/list", "resources", "uri", "resources"),
    "templates": ListMethod("resources/templates/list", "resourceTemplates", "uriTemplate", "resources"),
    "prompts": ListMethod("prompts/list", "prompts", "name", "prompts"),
}


class _Turn:
    """Lets others have their turn after some work."""

    def __init__(self) -> None:
        self._done_bytes = 0

    async def after(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        if self._done_bytes >= TURN_BYTES:
            self._done_bytes = 0
            await asyncio.sleep(0)


async def every_item(ask: Ask, method: str, member: str, log: Any) -> ServerList[dict[str, Any]]:
    """All items of a list, over all its pages; none when the server does not know the method (MCP, pagination).

    What cannot be read is left out, and never hides the others: too long an item, one that is no object, or one with
    what is no JSON to us, such as an integer of 5,000 digits. Between pages and items others have their turn.
    """
    found: ServerList[dict[str, Any]] = ServerList()
    turn, began_s, fresh_ms = _Turn(), asyncio.get_running_loop().time(), LONGEST_FRESH_MS
    cursor: Any = None
    ends: list[tuple[Any, int]] = []
    for _ in range(MOST_PAGES):
        try:
            page = await ask(method, RawObject.of({} if cursor is None else {"cursor": cursor}))
        except RpcError as exc:
            if exc.code == METHOD_NOT_FOUND:
                break
            raise
        members = _members(page, method)
        for raw in _split_list(members.get(member, NO_ITEMS)):
            item = _item(raw, method, log)
            if item is not None:
                found.append(item)
            await turn.after(memoryview(raw).nbytes)
        # An empty string is a cursor, too.
        cursor, fresh = (json.loads(bytes(members.get(name, NULL))) for name in ("nextCursor", "ttlMs"))
        fresh_ms = min(fresh_ms, fresh if isinstance(fresh, int) else 0)
        if cursor is None:
            found.ends, found.fresh_until_s = _told_apart(ends), began_s + max(0, fresh_ms) / 1000
            break
        ends.append((cursor, len(found)))
    return found


def _told_apart(ends: Sequence[tuple[Any, int]]) -> Sequence[tuple[str, int]]:
    """``ends`` if each cursor stands for one page, and clients may send it; else none."""
    cursors = {cursor for cursor, _ in ends if isinstance(cursor, str) and len(cursor) <= TEXT}
    return ends if len(cursors) == len(ends) else ()


def is_private(page: RawObject) -> bool:
    """Whether a page of a list is only for whom it was sent to (MCP 2026-07-28, caching)."""
    return b'"cacheScope"' in page.raw and bytes(_members(page, "a list").get("cacheScope", NULL)) == b'"private"'


def _members(page: RawObject, method: str) -> Mapping[str, msgspec.Raw]:
    if len(page.raw) > LIST_BYTES:
        size, most = len(page.raw) >> 20, LIST_BYTES >> 20
        raise TransportError(f"the answer to {method} has {size} MiB; at most {most} are read", retryable=True)
    try:
        return split(page.raw)
    except msgspec.MsgspecError as exc:
        raise TransportError(f"the answer to {method} is not an object: {exc}", retryable=True) from exc


def _split_list(raw: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return _LIST.decode(raw)
    except msgspec.MsgspecError:
        # Lone surrogates and NaN, which others take for JSON.
        with contextlib.suppress(ValueError, RecursionError):
            items = json.loads(bytes(raw), parse_int=lambda digits: int(digits) if len(digits) < DIGITS else digits)
            return [msgspec.Raw(encode(item)) for item in items] if isinstance(items, list) else []
        return []


def _item(raw: msgspec.Raw, method: str, log: Any) -> dict[str, Any] | None:
    """One item; None when it is left out."""
    view = memoryview(raw)
    size = view.nbytes
    problem = f"it has {size} bytes; at most {DEFINITION_BYTES} are read" if size > DEFINITION_BYTES else ""
    try:
        item = None if problem else json.loads(bytes(view))
    except (ValueError, RecursionError) as exc:
        item, problem = None, str(exc)
    if item is not None and not isinstance(item, dict):
        item, problem = None, "it is no object"
    if item is None:
        log.warning("an item of a list is left out", list=method, item=repr(bytes(view[:200])), reason=problem)
    return item


async def tools_of(server: str, ask: Ask, log: Any) -> ServerList[CatalogEntry]:
    """What ``server`` lists, as the catalog has it. Others have their turn after each tool."""
    entries, turn = [], _Turn()
    given = await every_item(ask, "tools/list", "tools", log)
    places = {id(definition): place for place, definition in enumerate(given)}
    for definition in usable_tools(given, log):
        try:
            entry = make_entry(server, definition)
        except (RecursionError, ValueError) as exc:
            log.warning("a tool is left out", tool=str(definition["name"])[:200], reason=str(exc))
            continue
        for member in ("inputSchema", "outputSchema"):
            if problem := problem_of(entry, member):
                said = "a tool's schema is passed on to clients, but not read here: nothing is checked by it"
                log.warning(said, tool=entry.name, schema=member, reason=problem)
        entries.append((entry, places[id(definition)]))
        await turn.after(4 * entry.tokens)
    return ServerList.of((entry for entry, _ in entries), given, [place for _, place in entries])


def usable_tools(listed: Sequence[Mapping[str, Any]], log: Any) -> list[Mapping[str, Any]]:
    """The tools that have a name, each name once; one that is broken never hides the others."""
    found: dict[str, Mapping[str, Any]] = {}
    for definition in listed:
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            log.warning("a tool without a name is left out", tool=repr(definition)[:200])
            continue
        if len(name) > NAME_CHARACTERS:
            told = f"{len(name)} characters; at most {NAME_CHARACTERS}"
            log.warning("a tool with too long a name is left out", tool=name[:200], name_has=told)
            continue
        if name in found:
            log.warning("a tool is listed twice; the first one counts", tool=name)
            continue
        schema = definition.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            log.warning("a tool's inputSchema is not of type object; clients are shown one that is", tool=name)
        found[name] = definition
    return list(found.values())
