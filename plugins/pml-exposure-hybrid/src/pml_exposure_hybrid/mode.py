"""The mode itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from pml_hookspecs import Selection, ToolId, split_tool_id

from .blacklist import Blacklist
from .settings import Settings
from .usage import Usage

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services, Session


class Hybrid:
    """Shows meta-tools and selected tools of servers. Implements :class:`pml_hookspecs.ExposureMode`."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """``services`` is where doubtful settings are logged."""
        self._settings, self._services = settings or Settings(), services
        self._blacklist = Blacklist(self._settings.blacklisted_tools)
        patterns = [name for name in self._settings.whitelisted_tools if any(char in name for char in "*?[")]
        self._patterns = {name: Blacklist([name]) for name in patterns}
        counted = None if self._settings.fallback == "nothing" else services
        self._usage = None if counted is None else Usage(counted)
        self._warned: set[str] = set()

    @property
    def lists_meta_tools(self) -> bool:
        """Whether clients are told how to use the meta-tools."""
        return self._settings.expose_meta_tools

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """Pick tools.

        Returns:
            The meta-tools in catalog order, the whitelist in its order, then the tools that fit the intent, best first
            and of several intents in turns; without any, with ``fallback`` the tools that the caller uses most; or with
            ``apply_semantic_filter`` off the first tools of the catalog. Each
            once, at its first place; none that is blacklisted. Tools that the session may not have take no place of
            another.
        """
        settings = self._settings
        why: dict[ToolId, str] = {}
        if settings.expose_meta_tools:
            why.update((entry.id, "meta-tool") for entry in catalog if entry.meta)
        if settings.expose_underlying_tools:
            for tool, reason in (await self._underlying(catalog, session)).items():
                why.setdefault(tool, reason)
        if not (settings.expose_meta_tools or settings.expose_underlying_tools):
            self._warn("nothing", "expose_meta_tools and expose_underlying_tools are both off: clients see no tools")
        return Selection(tuple(why), shared=self._is_for_everybody(catalog), why=why)

    def _is_for_everybody(self, catalog: Catalog) -> bool:
        """Whether neither an intent nor what a session may have changes the answer."""
        limit = self._settings.max_underlying_tools
        if not (self._settings.expose_underlying_tools and limit):
            return True
        # Where all are listed, what is hidden from one takes no place that another tool could have.
        everything = sum(not entry.own for entry in catalog) <= limit
        return not self._settings.apply_semantic_filter and everything

    async def _underlying(self, catalog: Catalog, session: Session) -> dict[ToolId, str]:
        found = dict(self._whitelisted(catalog))
        for tool, reason in await self._others(catalog, session):
            found.setdefault(tool, reason)
        if self._settings.blacklisted_tools:
            forbidden = self._blacklist.ids(catalog)
            found = {tool: reason for tool, reason in found.items() if tool not in forbidden}
        self._compare_with_cap(len(found))
        return found

    def _whitelisted(self, catalog: Catalog) -> Iterator[tuple[ToolId, str]]:
        for name in self._settings.whitelisted_tools:
            entry = catalog.resolve(name)
            if entry is not None:
                yield entry.id, "whitelisted"
            elif name in self._patterns:
                yield from ((one.id, "whitelisted") for one in catalog if one in self._patterns[name])
            else:
                self._report_unknown(name, catalog)

    async def _others(self, catalog: Catalog, session: Session) -> list[tuple[ToolId, str]]:
        limit = self._settings.max_underlying_tools
        if not self._settings.apply_semantic_filter:
            theirs = self._first(limit, catalog, session)
            return [(tool, f"one of the first {limit} tools") for tool in theirs]
        intents = [session.intent] if session.intent.strip() else self._settings.intents
        if not limit:
            return []
        if not intents:
            return await self._most_used(limit, catalog, session)
        threshold = self._settings.semantic_threshold
        found = [
            [(hit.id, f"fits the intent (relevance {hit.score:.2f})") for hit in hits]
            for intent in intents
            if (hits := await catalog.search(intent, limit=limit, min_score=threshold, session=session))
        ]
        # The best of each intent come before the second of any, so that the cap leaves none without tools.
        turns = chain.from_iterable(zip_longest(*found))
        first: dict[ToolId, str] = {}
        for tool, why in (one for one in turns if one is not None):
            first.setdefault(tool, why)
        return list(first.items())[:limit]

    async def _most_used(self, limit: int, catalog: Catalog, session: Session) -> list[tuple[ToolId, str]]:
        if self._usage is None:
            return []
        try:
            used = await self._usage.of(session)
        except Exception as exc:
            self._warn("usage", "which tools are used most cannot be read", problem=str(exc))
            return []
        visible = catalog.visible(session)
        theirs = {entry.id for entry in catalog if not entry.own and entry.id in visible}
        return [(ToolId(tool), f"used {count} times in 30 days") for tool, count in used if tool in theirs][:limit]

    def _first(self, limit: int, catalog: Catalog, session: Session) -> list[ToolId]:
        theirs = [entry.id for entry in catalog if not entry.own]
        if len(theirs) <= limit:
            return theirs
        visible = catalog.visible(session)
        return [tool for tool in theirs if tool in visible][:limit]

    def _compare_with_cap(self, shown: int) -> None:
        """Say once when the whitelist takes the list over the cap."""
        if shown > self._settings.max_underlying_tools:
            self._warn(
                "cap",
                "the whitelist and max_underlying_tools together list more tools than max_underlying_tools",
                tools=shown,
                max_underlying_tools=self._settings.max_underlying_tools,
            )

    def _report_unknown(self, name: str, catalog: Catalog) -> None:
        """Say once that a whitelisted tool does not exist, unless its server is still starting."""
        import difflib

        server = split_tool_id(name)[0] or name.partition("__")[0]
        states = {status.name: status for status in catalog.servers()}
        known = states.get(server)
        if f"unknown {name}" in self._warned or (known is not None and known.state == "starting"):
            return
        spelt = name if ":" in name else name.replace("__", ":", 1)
        nearest = difflib.get_close_matches(spelt, [entry.id for entry in catalog], n=1)
        self._warn(
            f"unknown {name}",
            "a whitelisted tool does not exist; skipped",
            tool=name,
            nearest=nearest[0] if nearest else "",
            server_problem=known.reason if known is not None else "",
        )

    def _warn(self, once: str, event: str, **details: object) -> None:
        if once not in self._warned and self._services is not None:
            self._warned.add(once)
            self._services.log.warning(event, **details)
