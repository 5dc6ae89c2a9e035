"""A changed configuration takes effect while the gateway runs, as far as it can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients.configuration import restarts
from pml_clients.configuration.files import State
from pml_hookspecs import ToolFilter, replace
from pml_kit.errors import OperatorError
from pml_kit.offers import AccessEvent
from pml_settings.changes import changed_tables, changes, file_changes, refuse_lost
from pml_settings.config import Config
from pml_settings.config_tables import GatewaySettings

from .plugins.assembly import check_required

if TYPE_CHECKING:
    from pml_catalog.exposure.exposures import Exposures
    from pml_catalog.exposure.tool_rules import Filters
    from pml_catalog.live import LiveCatalog
    from pml_catalog.own_tools import OwnTools
    from pml_kit.system.logs import Logs
    from pml_kit.system.redaction import Redactor
    from pml_mcp.servers.servers import Servers

    from .active_config import ActiveConfig
    from .announcement import Announcement
    from .kernel.identities import AccessWatchers
    from .plugins.assembly import Assembly
    from .plugins.supervisor import Supervisor

LIVE = frozenset(
    {"tools_exposure", "intent", "execution_mode", "dry_run_only", "page_size", "list_wait_s", "log_level", "required"}
)
"""Settings of ``[gateway]`` that take effect at once; the others do with the next start."""
FILTERS = "pml_filter_tools"
UNAFFECTED = frozenset({FILTERS, "pml_commands", "pml_checks"})
"""Hooks that are asked again, or only by other commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadParts:
    """What a changed configuration makes different."""

    active: ActiveConfig
    announcement: Announcement
    access_watchers: AccessWatchers
    catalog: LiveCatalog
    exposures: Callable[[Config, Assembly, Exposures], Exposures]
    """Makes those of a configuration, given those of the one before."""
    filters: Filters
    server_pool: Servers
    logs: Logs
    own_tools: OwnTools
    redactor: Redactor
    supervisor: Supervisor
    lists_may_differ: Callable[[], None]
    """Tells clients whose lists do."""


class Reload:
    """Applies what has changed, or leaves everything as it is."""

    def __init__(self, parts: ReloadParts, read: Callable[[], Config], asked: Mapping[str, str]) -> None:
        """Have the configuration as it is now read by ``read``, which may raise :class:`OperatorError`.

        ``asked`` are the restarts that had been asked for when the gateway began to start: a later one is not missed.
        """
        self._parts, self._read, self._log = parts, read, parts.logs.get()
        self._wanted = parts.active.config
        """As last read; the gateway's own differs where a restart is needed."""
        self._restarts = asked

    async def follow(self, files: Sequence[Path], known: State, asked: asyncio.Event) -> None:
        """Apply changes of ``files`` since they were as ``known``, and whenever ``asked`` is set, until cancelled."""
        async for gone in file_changes(files, known, asked):
            if gone:
                self._log.warning("a configuration file is gone; everything stays as it is", files=gone)
            else:
                await self.now()
                await self._restart()

    async def now(self) -> bool:
        """Read the configuration and apply it; False when it does not fit and the old one stays in force."""
        try:
            wanted = await asyncio.to_thread(self._read)
            refuse_lost(self._wanted, wanted)
            changed = list(changes(self._wanted, wanted))
            if not changed:
                self._log.debug("the configuration says what it said before")
                return True
            await self._apply(wanted)
        except OperatorError as exc:
            self._log.error("the changed configuration is refused; the old one stays in force", problem=str(exc))
            await self._report("config.refused", problem=str(exc))
            return False
        except Exception:
            self._log.exception("the changed configuration could not be applied as a whole")
            await self._report("config.failed")
            return False
        late = [path for path in changed if self._needs_restart(path, wanted)]
        self._wanted = wanted
        announcement = self._parts.announcement
        self._log.info("the changed configuration is in force", changed=changed, **announcement.modes())
        if late:
            self._log.warning("some changes take effect with the next start", settings=late)
        announcement.warn()
        await self._report("config.reloaded", changed=changed, with_next_start=late)
        return True

    async def _restart(self) -> None:
        """Start the servers anew of which somebody has asked it since this was looked at last."""
        server_pool, before, self._restarts = self._parts.server_pool, self._restarts, restarts.asked()
        names = [n for n, mark in self._restarts.items() if before.get(n) != mark and n in server_pool.names]
        if names:
            self._log.info("servers are started anew, as asked", servers=names)
            await server_pool.restart(names)
            await self._report("servers.restarted", servers=names)

    async def _report(self, code: str, **details: Any) -> None:
        event = AccessEvent(kind="change", target="configuration", code=code, details=details)
        await self._parts.access_watchers.tell(event)

    def _needs_restart(self, path: str, wanted: Config) -> bool:
        section, _, name = path.partition(".")
        if section == "gateway":
            return bool(getattr(wanted.gateway, name) != getattr(self._parts.active.config.gateway, name))
        assembly = self._parts.active.assembly
        loaded = any(record.name == name for record in assembly.records)
        return section == "plugins" and (not loaded or assembly.needs_restart(name, UNAFFECTED))

    async def _apply(self, wanted: Config) -> None:
        """Make ready all that can fail; then change over in one step.

        Raises:
            OperatorError: Something does not fit.
        """
        parts, active = self._parts, self._parts.active
        old = active.config
        check_required(wanted.gateway.required, active.assembly.records, parts.supervisor.failed)
        parts.own_tools.check_free(set(wanted.servers) - set(old.servers))
        kept = {f.name: getattr(old.gateway, f.name) for f in fields(GatewaySettings) if f.name not in LIVE}
        config = replace(wanted, gateway=replace(wanted.gateway, **kept))
        parts.redactor.learn(config.secrets())
        assembly = active.assembly.under(config)
        assembly.check(changed_tables(old, config))
        filters = _filters(parts.filters, assembly, old, config)
        exposures = parts.exposures(config, assembly, active.exposures)
        await exposures.open()
        active.assembly = assembly
        parts.filters.use(filters)
        parts.catalog.filter_with(parts.filters.refusing, parts.filters.hides)
        active.config, active.exposures = config, exposures
        parts.logs.level(config.gateway.log_level)
        await parts.server_pool.change(config.servers)
        parts.lists_may_differ()
        await exposures.leave_replaced()


def _filters(
    before: Iterable[tuple[str, ToolFilter]], assembly: Assembly, old: Config, new: Config
) -> Sequence[tuple[str, ToolFilter]]:
    """All filters, made anew by the plugins whose tables have changed.

    Raises:
        OperatorError: A plugin cannot make its own, or makes what is none.
    """

    def failed(plugin: str, hook: str, exc: Exception) -> None:
        raise OperatorError(f"plugin {plugin!r} failed in {hook}: {exc}") from exc

    changed = changed_tables(old, new)
    renewed, again = assembly.gather_again(FILTERS, changed, failed)
    kept = [pair for pair in before if pair[0] not in renewed]
    return sorted([*kept, *again], key=lambda pair: pair[0])
