"""What the operator is told about the configuration in force: at the start, and when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

from pml_catalog.exposure import DEFAULT_ENDPOINT
from pml_catalog.exposure.tool_rules import named_by_servers
from pml_catalog.named_tools import named_by_plugins, unmatched
from pml_kit.command_line import plugin_health
from pml_kit.offers import TOOL_NAMES
from pml_kit.offers.tool_names import is_said
from pml_settings.warnings import config_warnings

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_hookspecs import Store
    from pml_settings.rehearsals import Rehearsals

    from .active_config import ActiveConfig
    from .plugins.offers import Offers
    from .plugins.supervisor import Supervisor

AFTER_FIRST_LIST_S = 0.3


class Announcement:
    """Says each thing once."""

    def __init__(
        self,
        active: ActiveConfig,
        catalog: LiveCatalog,
        rehearsals: Rehearsals,
        supervisor: Supervisor,
        offers: Offers,
        log: Any,
        *,
        servers: Callable[[], Collection[str]],
    ) -> None:
        """``servers`` gives the names of all that have tools, those of plugins among them."""
        self._active, self._catalog, self._rehearsals = active, catalog, rehearsals
        self._supervisor, self._offers, self._log, self._servers = supervisor, offers, log, servers
        self._said: set[str] = set()
        self.made = asyncio.Event()
        """The operator was told what is running."""

    async def begin(self, servers_tried: Callable[[], Awaitable[None]], store: Store) -> None:
        """Log what is running, once the first client need not wait for it: structlog takes its time.

        Args:
            servers_tried: Waits, within a bound, for servers that start.
            store: Is told how the plugins are, now and when the gateway ends.
        """
        try:
            await servers_tried()
            await asyncio.sleep(AFTER_FIRST_LIST_S)
            self._say_what_runs()
            self.warn()
            await self._warn_of_unmatched()
        finally:
            self.made.set()
        await self._keep_health(store)
        self._supervisor.on_close(self._keep_health, store)

    async def _keep_health(self, store: Store) -> None:
        await plugin_health.keep(store, self._active.assembly.records, self._supervisor.health)

    def _say_what_runs(self) -> None:
        statuses = self._catalog.servers()
        down = [s.name for s in statuses if s.state == "down"]  # the log has said why
        up = sum(s.state == "up" for s in statuses)
        tools = len(self._catalog)
        self._log.info("gateway is running", **self.modes(), servers_up=up, servers_down=down, tools=tools)

    def modes(self) -> dict[str, object]:
        """The exposure mode, those of the endpoints that are named, and what rehearses only."""
        modes = {view.endpoint: view.mode for view in self._active.exposures.endpoints()}
        about: dict[str, object] = {"mode": modes.pop(DEFAULT_ENDPOINT)}
        if modes:
            about["endpoints"] = modes
        if locks := self._rehearsals.all_locks():
            about["dry_run_only"] = locks
        return about

    def warn(self) -> None:
        """Log what is doubtful and what was ignored."""
        self.warn_of_unknown_tables()
        self.tell_of_projects()
        active = self._active
        for line in config_warnings(active.config, active.assembly.in_use(), active.exposures.endpoints()):
            if self._is_new(line):
                self._log.warning(line)
        for note in self._active.config.notes:
            if self._is_new(note):
                self._log.info("configuration", note=note)

    async def unmatched(self, *, whole: bool) -> list[str]:
        """One sentence for each name or pattern of tools that fits nothing; see :func:`named_tools.unmatched`."""
        fault = self._supervisor.fault
        by_plugins = await named_by_plugins(self._offers.find_all(TOOL_NAMES), fault)
        named = [*named_by_servers(self._active.config.servers), *by_plugins]
        return unmatched(named, self._catalog, self._servers(), whole=whole)

    async def _warn_of_unmatched(self) -> None:
        for line in await self.unmatched(whole=True):
            if not is_said(line, self._said) and self._is_new(line):
                self._log.warning(line)

    def tell_of_projects(self) -> None:
        """Log which projects' files count, which do not, and what of them does not."""
        config = self._active.config
        for line in (*config.ignored.values(), *config.refused):
            if self._is_new(line):
                self._log.warning(line)
        for source in config.sources:
            if source.is_projects and self._is_new(source.label):
                self._log.info("a project's configuration is in force, as it was trusted", file=source.label)

    def warn_of_unknown_tables(self) -> None:
        """Log which ``[plugins.*]`` tables no installed plugin reads."""
        for line in self._active.config.unknown_tables({one.name for one in self._active.assembly.records}):
            if self._is_new(line):
                self._log.warning(line)

    def _is_new(self, line: str) -> bool:
        new = line not in self._said
        self._said.add(line)
        return new
