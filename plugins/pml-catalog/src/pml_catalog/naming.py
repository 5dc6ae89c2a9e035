"""The names that clients see: ``server__tool`` outside, ``server:tool`` inside."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

from pml_hookspecs import Catalog, CatalogEntry, RawObject, ToolId, split_tool_id
from pml_kit.offers.presentation import shown_name

LONGEST = 64
"""Characters that the strictest clients allow in a tool's name."""
LONGEST_OWN = 128
"""Characters that MCP allows in a tool's name."""
FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]")
NOT_IN_CODE = re.compile(r"\W")
SEPARATOR = "__"
NO_TOOL = "@"
"""Begins what stands for a resource, a prompt or a method where tools are named; no tool's name begins with it."""


def _shortened(text: str, id: ToolId) -> str:
    tail = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[: LONGEST - len(tail) - 1]}_{tail}"


def plain_name(entry: CatalogEntry, prefix: str | None = None) -> str:
    """The name of one entry by itself: the gateway's own tools keep theirs.

    Args:
        prefix: What the names of its server's tools begin with; the server's name and two underscores if None.
    """
    if entry.own:
        return entry.name
    if is_given(entry):
        return shown_name(entry)
    text = f"{entry.server}{SEPARATOR}{entry.name}" if prefix is None else f"{prefix}{entry.name}"
    safe = FORBIDDEN.sub("_", text)
    return text if text == safe and len(text) <= LONGEST else _shortened(safe, entry.id)


def is_given(entry: CatalogEntry) -> bool:
    """Whether the operator has given a server's tool another name."""
    return shown_name(entry) != entry.name


def other_names(entry: CatalogEntry) -> Iterator[str]:
    """Under which a tool is found besides its id and its server's own name for it; none where it has kept that."""
    if is_given(entry):
        name = shown_name(entry)
        yield from (name, f"{entry.server}:{name}", f"{entry.server}{SEPARATOR}{name}")


def expose(
    entries: Iterable[CatalogEntry], prefixes: Mapping[str, str] | None = None
) -> tuple[dict[ToolId, str], list[tuple[ToolId, ToolId]]]:
    """Names for all ``entries``, each once, and the pairs that would have had the same one.

    Deterministic: of two that clash, the later in the order given gets a hashed ending. ``prefixes`` are by server, of
    those that have one of their own.
    """
    names: dict[ToolId, str] = {}
    taken: dict[str, ToolId] = {}
    clashes = []
    for entry in entries:
        name = plain_name(entry, (prefixes or {}).get(entry.server))
        if name in taken:
            clashes.append((taken[name], entry.id))
        while name in taken:
            name = _shortened(name, ToolId(f"{entry.id}\n{name}"))
        taken[name] = entry.id
        names[entry.id] = name
    return names, clashes


def servers_of(tool: str, prefixes: Mapping[str, str | None]) -> tuple[list[str], list[str]]:
    """Servers that a tool would be of, by its name alone, whatever they list.

    Args:
        tool: A name as clients or plans write it, or an id.
        prefixes: By server; None for the server's name and two underscores.

    Returns:
        Those that the name says, and those whose tools' names begin with nothing: any name may be of these.
    """
    said = split_tool_id(tool)[0] or tool.partition(SEPARATOR)[0]
    named = [name for name, prefix in prefixes.items() if prefix and tool.startswith(prefix)]
    if said != tool:
        named += [name for name in prefixes if _in_code(name) == _in_code(said) and name not in named]
    return named, [name for name, prefix in prefixes.items() if prefix == ""]


def own_name(tool: str, server: str, prefix: str | None) -> str:
    """What ``server`` would itself call a tool of such a name; see :func:`servers_of`."""
    begins = f"{server}{SEPARATOR}" if prefix is None else prefix
    if begins and tool.startswith(begins):
        return tool[len(begins) :]
    for said, _, own in (tool.partition(":"), tool.partition(SEPARATOR)):
        if own and _in_code(said) == _in_code(server):
            return own
    return tool


def is_plain(own: str) -> bool:
    """Whether a server's own name for a tool is one that MCP allows."""
    return 0 < len(own) <= LONGEST_OWN and not FORBIDDEN.search(own)


def folded(own: str) -> str:
    """The same for names that a lenient server may take for one another."""
    return re.sub(r"[_.-]", "", own).casefold()


def _in_code(server: str) -> str:
    """A server's name as code spells it."""
    return NOT_IN_CODE.sub("_", server)


def name_of(server: str, kind: str, target: str) -> str:
    """How patterns call what is no tool: ``files:@resource/file:///x``; ``kind`` is resource, prompt or method."""
    return f"{server}:{NO_TOOL}{kind}/{target}"


def entry_of(name: str, catalog: Catalog) -> CatalogEntry:
    """What filters are asked about: the tool of that id, or something that is called like it and says nothing else."""
    known = catalog.get(ToolId(name))
    if known is not None:
        return known
    server, _, own = name.partition(":")
    return CatalogEntry(ToolId(name), server, RawObject.of({"name": own}), 0)
