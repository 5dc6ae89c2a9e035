"""A changed configuration takes effect while the gateway runs, as far as it can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import AccessEvent, ToolFilter

from .errors import OperatorError
from .plugins.assembly import check_required
from .settings import restarts
from .settings.config import Config
from .settings.config_files import State, state_of
from .settings.config_tables import GatewaySettings

if TYPE_CHECKING:
    from .announcement import Announcement
    from .catalog.live import LiveCatalog
    from .exposure.exposures import ActiveConfig, Exposures
    from .kernel.admission import Filters
    from .kernel.identities import AccessWatchers
    from .kernel.own_tools import OwnTools
    from .logs import Logs
    from .plugins.assembly import Assembly
    from .plugins.supervisor import Supervisor
    from .servers.fleet import Fleet
    from .settings.redaction import Redactor

POLL_S = 1.0
"""How often the files are looked at [s]."""
SETTLED_S = 0.2
"""A file that was not written to for so long is complete [s]."""
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
    fleet: Fleet
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
        while True:
            if not asked.is_set():
                await _within(POLL_S, asked)
            if not asked.is_set() and state_of(files) == known:
                continue
            asked.clear()
            before, known = known, await _settled(files)
            gone = [str(path) for path, state in before.items() if state is not None and known[path] is None]
            if gone:
                self._log.warning("a configuration file is gone; everything stays as it is", files=gone)
            else:
                await self.now()
                await self._restart()

    async def now(self) -> bool:
        """Read the configuration and apply it; False when it does not fit and the old one stays in force."""
        try:
            wanted = await asyncio.to_thread(self._read)
            _refuse_lost(self._wanted, wanted)
            changes = list(_changes(self._wanted, wanted))
            if not changes:
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
        late = [path for path in changes if self._needs_restart(path, wanted)]
        self._wanted = wanted
        announcement = self._parts.announcement
        self._log.info("the changed configuration is in force", changed=changes, **announcement.modes())
        if late:
            self._log.warning("some changes take effect with the next start", settings=late)
        announcement.warn()
        await self._report("config.reloaded", changed=changes, with_next_start=late)
        return True

    async def _restart(self) -> None:
        """Start the servers anew of which somebody has asked it since this was looked at last."""
        fleet, before, self._restarts = self._parts.fleet, self._restarts, restarts.asked()
        names = [n for n, mark in self._restarts.items() if before.get(n) != mark and n in fleet.names]
        if names:
            self._log.info("servers are started anew, as asked", servers=names)
            await fleet.restart(names)
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
        assembly.check(_changed_tables(old, config))
        filters = _filters(parts.filters, assembly, old, config)
        exposures = parts.exposures(config, assembly, active.exposures)
        await exposures.open()
        active.assembly = assembly
        parts.filters.use(filters)
        parts.catalog.filter_with(parts.filters.refusing, parts.filters.hides)
        active.config, active.exposures = config, exposures
        parts.logs.level(config.gateway.log_level)
        await parts.fleet.change(config.servers)
        parts.lists_may_differ()
        await exposures.leave_replaced()


def _refuse_lost(old: Config, new: Config) -> None:
    """Keep what is in force when a project's file in it is not what was trusted any more.

    Raises:
        OperatorError: It is not.
    """
    used = {source.label for source in old.sources if source.is_projects}
    if lost := [line for path, line in new.ignored.items() if str(path) in used]:
        raise OperatorError("\n".join(lost))


def _filters(
    before: Iterable[tuple[str, ToolFilter]], assembly: Assembly, old: Config, new: Config
) -> Sequence[tuple[str, ToolFilter]]:
    """All filters, made anew by the plugins whose tables have changed.

    Raises:
        OperatorError: A plugin cannot make its own, or makes what is none.
    """

    def failed(plugin: str, hook: str, exc: Exception) -> None:
        raise OperatorError(f"plugin {plugin!r} failed in {hook}: {exc}") from exc

    changed = _changed_tables(old, new)
    renewed, again = assembly.gather_again(FILTERS, changed, failed)
    kept = [pair for pair in before if pair[0] not in renewed]
    return sorted([*kept, *again], key=lambda pair: pair[0])


def _changed_tables(old: Config, new: Config) -> set[str]:
    return {name for name in {*old.tables, *new.tables} if old.tables.get(name, {}) != new.tables.get(name, {})}


def _changes(old: Config, new: Config) -> Iterator[str]:
    """Paths of what differs."""
    before, now = asdict(old.gateway), asdict(new.gateway)
    yield from (f"gateway.{name}" for name in before if before[name] != now[name])
    sections: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "servers": (old.servers, new.servers),
        "endpoints": (old.endpoints, new.endpoints),
        "plugins": (old.tables, new.tables),
    }
    for section, (earlier, later) in sections.items():
        yield from (f"{section}.{n}" for n in sorted({*earlier, *later}) if earlier.get(n) != later.get(n))


async def _within(limit_s: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        return


async def _settled(files: Sequence[Path]) -> State:
    """The state of files that nobody is writing to any more."""
    now = state_of(files)
    while True:
        await asyncio.sleep(SETTLED_S)
        before, now = now, state_of(files)
        if before == now:
            return now
