"""What the operator is told about the configuration in force: at the start, and when it changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import health
from .assembly import unknown_tables
from .config import DEFAULT_ENDPOINT
from .doubts import doubts
from .named_tools import HOOK, is_said, named_by_plugins, named_by_servers, unmatched

if TYPE_CHECKING:
    from .gateway import Gateway

AFTER_FIRST_LIST_S = 0.3


class Announcement:
    """Says each thing once."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._said: set[str] = set()
        self.made = asyncio.Event()
        """The operator was told what is running."""

    async def begin(self) -> None:
        """Log what is running, once the first client need not wait for it: structlog takes its time."""
        try:
            await self._gateway.servers_tried()
            await asyncio.sleep(AFTER_FIRST_LIST_S)
            self._say_what_runs()
            self.warn()
            await self._warn_of_unmatched()
        finally:
            self.made.set()
        await self._keep_health()
        self._gateway.supervisor.on_close(self._keep_health)

    async def _keep_health(self) -> None:
        gateway = self._gateway
        if gateway.store is not None:
            await health.keep(gateway.store, gateway.assembly.records, gateway.supervisor.health)

    def _say_what_runs(self) -> None:
        gateway = self._gateway
        statuses = gateway.catalog.servers()
        down = [s.name for s in statuses if s.state == "down"]  # the log has said why
        up = sum(s.state == "up" for s in statuses)
        tools = len(gateway.catalog)
        gateway.log.info("gateway is running", **self.modes(), servers_up=up, servers_down=down, tools=tools)

    def modes(self) -> dict[str, object]:
        """The exposure mode, those of the endpoints that are named, and what rehearses only."""
        modes = {view.endpoint: view.mode for view in self._gateway.exposures.endpoints()}
        about: dict[str, object] = {"mode": modes.pop(DEFAULT_ENDPOINT)}
        if modes:
            about["endpoints"] = modes
        if locks := self._gateway.rehearsals.all_locks():
            about["dry_run_only"] = locks
        return about

    def warn(self) -> None:
        """Log what is doubtful and what was ignored."""
        gateway = self._gateway
        self.warn_of_unknown_tables()
        self.tell_of_projects()
        for line in self._doubts():
            if self._is_new(line):
                gateway.log.warning(line)
        for note in gateway.config.notes:
            if self._is_new(note):
                gateway.log.info("configuration", note=note)

    async def unmatched(self, *, whole: bool) -> list[str]:
        """One sentence for each name or pattern of tools that fits nothing; see :func:`named_tools.unmatched`."""
        gateway = self._gateway
        found = gateway.assembly.gather(HOOK, gateway.supervisor.fault)
        named = [*named_by_servers(gateway.config.servers), *await named_by_plugins(found, gateway.supervisor.fault)]
        return unmatched(named, gateway.catalog, {*gateway.servers, *gateway.own_tools.servers}, whole=whole)

    async def _warn_of_unmatched(self) -> None:
        for line in await self.unmatched(whole=True):
            if not is_said(line, self._said) and self._is_new(line):
                self._gateway.log.warning(line)

    def tell_of_projects(self) -> None:
        """Log which projects' files count, which do not, and what of them does not."""
        gateway = self._gateway
        for line in (*gateway.config.ignored.values(), *gateway.config.refused):
            if self._is_new(line):
                gateway.log.warning(line)
        for source in gateway.config.sources:
            if source.is_projects and self._is_new(source.label):
                gateway.log.info("a project's configuration is in force, as it was trusted", file=source.label)

    def warn_of_unknown_tables(self) -> None:
        """Log which ``[plugins.*]`` tables no installed plugin reads."""
        for line in unknown_tables(self._gateway.config, self._gateway.assembly.records):
            if self._is_new(line):
                self._gateway.log.warning(line)

    def _doubts(self) -> list[str]:
        assembly = self._gateway.assembly
        types = {"hybrid": found} if (found := assembly.settings_type("exposure_mode", "hybrid")) else {}
        return doubts(self._gateway.config, types)

    def _is_new(self, line: str) -> bool:
        new = line not in self._said
        self._said.add(line)
        return new
