"""Resources, templates and prompts of all servers as one list each, and which server each belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_catalog.addresses import alias, is_own, kind_of, template_alias, unaliased
from pml_catalog.listing import LISTINGS, Kind
from pml_catalog.naming import SEPARATOR, folded, name_of, own_name, servers_of
from pml_catalog.paging import ServerList
from pml_hookspecs import RpcError, TransportError
from pml_kit.mcp.protocol import INVALID_PARAMS, RESOURCE_NOT_FOUND

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog

    from . import Server

QUICKLY_S = 1.0
"""Longest that an answer with links waits for lists that were not read yet [s]."""

LOOKED_S = 5.0
"""How old a list may be in which a name or a URI is not found [s]."""

Keeps = Callable[[str, str], bool]
"""Whether whoever asks may have what a server, by name, calls by a URI or a name."""
Age: TypeAlias = "Callable[[Server], float | None]"
"""How old a server's list may be before it is read again; None for any age [s]."""
Item: TypeAlias = "tuple[Server, dict[str, Any], dict[str, Any]]"
"""Server, item as it sent it, item as clients see it."""


def _of_any_age(_server: Server) -> float | None:
    return None


def _as_set(server: Server) -> float | None:
    return server.settings.relist_s


def _looked_up(_server: Server) -> float | None:
    return LOOKED_S


def of_the_kind(uri: str, known: Iterable[tuple[str, str]]) -> str | None:
    """The server that alone has URIs, or templates, of the scheme of ``uri``, and of its host for those of the web.

    Args:
        uri: That no server lists.
        known: Servers, each with a URI or a template.
    """
    kind = kind_of(uri)
    servers = {server for server, one in known if kind and kind_of(one) == kind}
    return servers.pop() if len(servers) == 1 else None


@dataclass(frozen=True, slots=True)
class Claims:
    """What servers are known to have, for one session."""

    listed: Mapping[str, str]
    """URIs that servers list or whose tools name them, each with the first server by name."""
    templates: list[tuple[str, str, Callable[[str], bool]]]
    """Template, its server, and whether the session may have a URI of it."""
    able: list[str]
    """Servers that have resources, listed or not."""
    keeps: Keeps
    """What of them the session may have."""

    def owner(self, uri: str) -> str | None:
        """The server that a URI would be read from; None where that is not known."""
        if (found := self.listed.get(uri)) is not None:
            return found
        for template, server, keeps in self.templates:
            if matches(template, uri) and keeps(uri):
                return server
        able = [server for server in self.able if self.keeps(server, uri)] or self.able
        if len(able) == 1:
            return able[0]
        pairs = [(server, uri) for uri, server in self.listed.items()]
        return of_the_kind(uri, [*pairs, *((server, template) for template, server, _ in self.templates)])


class Features:
    """What the servers offer besides tools."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        log: Any,
        reserved: Callable[[], Collection[str]] = frozenset,
        catalog: LiveCatalog | None = None,
    ) -> None:
        """Offer what ``servers`` do.

        Args:
            servers: By name, those there are at any time.
            log: Hears of lists that cannot be read.
            reserved: Gives the names of prompts that are the gateway's own.
            catalog: Knows, by server, the URIs of resources that its tools name, which it need not list, and what is
                put in place of items.
        """
        self._servers, self._log, self._reserved, self._catalog = servers, log, reserved, catalog
        self._named: Callable[[], Mapping[str, Collection[str]]] = dict if catalog is None else catalog.pages
        self._late: set[str] = set()
        """Servers whose lists nobody waits for, as they did not come in time."""

    @property
    def several(self) -> bool:
        """Whether more than one server has resources."""
        return sum(server.offers("resources") for server in self._servers.values()) > 1

    async def claims(self, keeps: Keeps) -> Claims:
        """What is known to be whose, as far as ``keeps`` keeps it; waits a little for lists that were not read yet."""
        servers = [s for _, s in sorted(self._servers.items()) if s.offers("resources")]
        kinds: tuple[Kind, Kind] = ("resources", "templates")
        reading = {(s.name, kind): asyncio.ensure_future(self._of(s, kind, 0.0)) for s in servers for kind in kinds}
        if wanted := [task for (name, _), task in reading.items() if name not in self._late]:
            await asyncio.wait(wanted, timeout=QUICKLY_S)
        await asyncio.sleep(0)
        for (name, _), task in reading.items():
            if not task.done():
                self._late.add(name)
                task.add_done_callback(partial(self._came, name))
        listed: dict[str, str] = {}
        templates: list[tuple[str, str, Callable[[str], bool]]] = []
        named = self._named()
        for name in (server.name for server in servers):
            ours, theirs = (reading[name, kind] for kind in kinds)
            uris = [*(i["uri"] for i in (ours.result() if ours.done() else ())), *named.get(name, ())]
            listed |= {uri: name for uri in uris if uri not in listed and keeps(name, uri)}
            items = theirs.result() if theirs.done() else ()
            templates += [(item["uriTemplate"], name, partial(keeps, name)) for item in items]
        return Claims(listed, templates, [server.name for server in servers], keeps)

    async def listed(self, kind: Kind, keeps: Keeps, only: Server | None = None) -> ServerList[dict[str, Any]]:
        """Every item of ``kind`` that ``keeps`` keeps, as clients see it, by server and in each server's order.

        ``only`` is the one server that the client has, in whose pages they are if they are all that it has; None where
        the client has several, of which none hides the others.

        Raises:
            RpcError: What ``only`` says in place of its list.
        """
        given = await _given(only, kind)
        items = await self._items(kind, keeps, _as_set)
        whole = given if given is not None and len(given) == len(items) else ServerList[Any]()
        return ServerList.of((shown for _, _, shown in items), whole, range(len(items)))

    def _came(self, server: str, _task: object) -> None:
        self._late.discard(server)

    async def prompt(self, name: str, keeps: Keeps) -> tuple[Server, str]:
        """The server that has a prompt, and its own name for it; one that ``keeps`` does not keep only for want of one.

        Its name as it is listed is known, ``server__prompt`` and ``server:prompt``, and the bare name where one server
        alone has it. A name that no server lists is for the server that it says, or that alone has bare names.

        Raises:
            RpcError: There is none, or several servers have one of that name.
        """
        found = await self._prompts(name, keeps)
        if not found and await self._woken():
            found = await self._prompts(name, keeps)
        named, bare = servers_of(name, {one.name: one.settings.prefix for one in self._servers.values()})
        asked = named or bare or self._servers
        found = found or await self._prompts(name, keeps, lambda one: LOOKED_S if one.name in asked else None)
        if len(found) == 1:
            return found[0][0], found[0][1]["name"]
        if not found and (served := await self._unlisted_prompt(name, keeps)) is not None:
            return served
        if not found:
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {name}")
        candidates = [shown["name"] for _, _, shown in found]
        message = f"Several servers have a prompt {name}: say which of {', '.join(candidates)}"
        raise RpcError(INVALID_PARAMS, message, {"candidates": candidates})

    async def _prompts(self, name: str, keeps: Keeps, max_age_s: Age = _of_any_age) -> list[Item]:
        """Those of that name; one that is not kept only for want of one that is."""
        kept = _prompts_named(name, await self._items("prompts", keeps, max_age_s))
        return kept or _prompts_named(name, await self._items("prompts"))[:1]

    async def _unlisted_prompt(self, name: str, keeps: Keeps) -> tuple[Server, str] | None:
        """The one server that may have a prompt which none lists, as its name says, and its own name for it.

        It is judged by its name, also in small letters, and is none that only differs in writing from a listed one.
        """
        prefixes = {one.name: one.settings.prefix for one in self._servers.values() if one.settings.enabled}
        named, bare = servers_of(name, prefixes)
        able = _able([self._servers[one] for one in named or bare], "prompts")
        pairs = [(server, own_name(name, server.name, server.settings.prefix)) for server in able]
        served = [(one, own) for one, own in pairs if keeps(one.name, own) and keeps(one.name, own.lower())]
        if len(served) != 1:
            return None
        server, own = served[0]
        listed = await self._of(server, "prompts")
        return None if any(folded(one["name"]) == folded(own) for one in listed) else (server, own)

    async def resource(self, uri: str, keeps: Keeps) -> tuple[Server, str]:
        """The server that has a resource, listed or by a template, and its own URI; as of :meth:`prompt`.

        Raises:
            RpcError: None has.
        """
        if (known := self._aliased(uri)) is not None:
            return known
        found = await self._listed_resource(uri, keeps)
        if found is None and await self._woken():
            found = await self._listed_resource(uri, keeps)
        found = found or await self._listed_resource(uri, keeps, _looked_up)
        found = found or await self._unlisted_resource(uri, keeps)
        if found is not None:
            return found
        raise RpcError(RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})

    def _aliased(self, uri: str) -> tuple[Server, str] | None:
        """The server that a URI of the gateway's own names, whether that lists it or not, and its own URI."""
        server, own = unaliased(uri) or ("", "")
        return (self._servers[server], own) if server in self._servers else None

    async def _unlisted_resource(self, uri: str, keeps: Keeps) -> tuple[Server, str] | None:
        """The one server that may have what none lists, of those that may be asked: no other gets to see the URI."""
        able = _able((one for one in self._servers.values() if one.settings.enabled), "resources")
        kept = [server for server in able if keeps(server.name, uri)]
        if len(kept or able) == 1:  # servers need not list what they have
            return (kept or able)[0], uri
        named = self._named()
        pairs = [(server.name, one) for server in kept for one in named.get(server.name, ())]
        for kind in ("resources", "templates"):
            pairs += [(server.name, item[LISTINGS[kind].key]) for server, item, _ in await self._items(kind, keeps)]
        server = of_the_kind(uri, pairs)
        return (self._servers[server], uri) if server in {one.name for one in kept} else None

    async def _listed_resource(
        self, uri: str, keeps: Keeps, max_age_s: Age = _of_any_age
    ) -> tuple[Server, str] | None:  # fmt: skip
        named = self._named()
        for kept in (keeps, None):
            items = await self._items("resources", kept, max_age_s)
            found = [server for server, _, shown in items if shown["uri"] == uri]
            for name in sorted(self._servers):
                found += [self._servers[name]] * (uri in named.get(name, ()) and (kept is None or kept(name, uri)))
            if found:
                return min(found, key=lambda server: server.name), uri
            for server, item, _ in await self._items("templates", max_age_s=max_age_s):
                if matches(item["uriTemplate"], uri) and (kept is None or kept(server.name, uri)):
                    return server, uri
        return None

    async def _woken(self) -> bool:
        """Start the servers that were not needed yet, for what nobody else has; whether there were any."""
        return any(await asyncio.gather(*(server.wake() for server in self._servers.values())))

    async def template(self, template: str, keeps: Keeps) -> tuple[Server, str]:
        """The server that has a resource template, or a resource, of this very text, and its own text.

        Raises:
            RpcError: None has.
        """
        if (known := self._aliased(template)) is not None:
            return known
        for kept in (keeps, None):
            for server, item, _ in await self._items("templates", kept):
                if template == item["uriTemplate"]:
                    return server, template
        return await self.resource(template, keeps)

    async def _items(
        self, kind: Kind, keeps: Keeps | None = None, max_age_s: Age = _of_any_age
    ) -> list[Item]:  # fmt: skip
        """What servers have, under names that tell nothing of what ``keeps`` does not keep; None keeps all.

        ``max_age_s`` says how old each server's list may be, None standing for any age [s].
        """
        servers = [self._servers[name] for name in sorted(self._servers)]
        lists = await asyncio.gather(*(self._of(server, kind, max_age_s=max_age_s(server)) for server in servers))
        key = LISTINGS[kind].key
        pairs = (
            (server, item)
            for server, items in zip(servers, lists, strict=True)
            for item in items
            if keeps is None or keeps(server.name, item[key])
        )
        shown = _shown(kind, pairs, self._reserved() if kind == "prompts" else ())
        return [(server, item, left) for server, item, one in shown if (left := self._left(server, kind, item, one))]

    def _left(self, server: Server, kind: Kind, item: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any] | None:
        """What is left of an item for clients; None where it is withheld."""
        if self._catalog is None:
            return shown
        name = name_of(server.name, "prompt" if kind == "prompts" else "resource", item[LISTINGS[kind].key])
        left = self._catalog.said(name, server.name, shown)
        key = LISTINGS[kind].key
        return shown if left is shown else None if left is None else {**left, key: shown[key]}

    async def _of(
        self, server: Server, kind: Kind, wait_s: float | None = None, max_age_s: float | None = None
    ) -> list[dict[str, Any]]:  # fmt: skip
        """One server's list; empty when it cannot give one, which never hides the others'."""
        try:
            return await server.features(kind, wait_s, max_age_s)
        except (RpcError, TransportError, TimeoutError) as exc:
            self._log.warning("a list could not be read", server=server.name, kind=kind, reason=str(exc))
            return []


async def _given(server: Server | None, kind: Kind) -> ServerList[dict[str, Any]] | None:
    """What an only server says when it is asked, declared or not; one that is away refuses nothing, and gives none."""
    if server is not None:
        with suppress(TransportError, TimeoutError):
            return await server.features(kind, max_age_s=server.settings.relist_s, undeclared=True)
    return None


def _able(servers: Iterable[Server], capability: str) -> list[Server]:
    """Those that say that they can do something; all where none does: some that can do not say so."""
    known = list(servers)
    return [server for server in known if server.offers(capability)] or known


def _prompts_named(name: str, items: list[Item]) -> list[Item]:
    """The prompt that clients see under ``name``; otherwise the one that it spells, or those that servers call so."""
    for called in (_as_listed, _as_spelt, _as_its_own):
        if found := [one for one in items if name in called(one)]:
            return found
    return []


def _as_listed(one: Item) -> tuple[str, ...]:
    return (one[2]["name"],)


def _as_spelt(one: Item) -> tuple[str, ...]:
    return tuple(f"{one[0].name}{separator}{one[1]['name']}" for separator in (SEPARATOR, ":"))


def _as_its_own(one: Item) -> tuple[str, ...]:
    return (one[1]["name"],)


def _shown(
    kind: Kind, pairs: Iterator[tuple[Server, dict[str, Any]]], reserved: Collection[str]
) -> Iterator[Item]:  # fmt: skip
    """Items under names that are each other's own: prompts with their prefix, URIs as they are while unique."""
    key, taken = LISTINGS[kind].key, set(reserved)
    for server, item in pairs:
        name = item[key]
        if kind == "prompts":
            name = _prompt_name(server, name, taken)
        elif name in taken or is_own(name):
            name = (template_alias if kind == "templates" else alias)(server.name, name)
        taken.add(name)
        yield server, item, item if name == item[key] else {**item, key: name}


def _prompt_name(server: Server, name: str, taken: Collection[str]) -> str:
    """What clients call a prompt: as tools are called, and with the server's name where another one is called so."""
    prefix = server.settings.prefix
    shown = f"{server.name}{SEPARATOR}{name}" if prefix is None else f"{prefix}{name}"
    while shown in taken:
        shown = f"{server.name}{SEPARATOR}{shown}"
    return shown


def matches(template: str, uri: str) -> bool:
    """Whether ``uri`` can come of a URI template (RFC 6570; any expression stands for any text).

    Each text between expressions is taken where it first comes, so that nothing is tried twice.
    """
    first, *others = _literals(template)
    if not others:
        return uri == first
    last, at = others[-1], len(first)
    if not uri.startswith(first):
        return False
    for literal in others[:-1]:
        found = uri.find(literal, at + 1)
        if found < 0:
            return False
        at = found + len(literal)
    return len(uri) - len(last) > at and uri.endswith(last)


def _literals(template: str) -> list[str]:
    """What stands before, between and behind the expressions of a template."""
    literals, at, rest = [], 0, 0
    while (begin := template.find("{", at)) >= 0 and (end := template.find("}", begin)) >= 0:
        literals.append(template[rest:begin])
        at = rest = end + 1
    return [*literals, template[rest:]]
