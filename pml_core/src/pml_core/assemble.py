"""Which parts there are, and what connects them; and what the configuration names, opened and put in its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, NoReturn

from pml_background.readiness import LiveReadiness
from pml_catalog.exposure.exposures import Exposures
from pml_catalog.exposure.tool_rules import Filters, refusal
from pml_catalog.exposure.views import LiveViews
from pml_catalog.live import LiveCatalog
from pml_catalog.naming import entry_of
from pml_catalog.own_tools import OwnTools
from pml_hookspecs import Offer, Store, TransportError
from pml_kit.errors import OperatorError
from pml_kit.offers import ACCESS, READINESS, READINESS_CHECKS, STATIC_CHECKS, VIEWS
from pml_kit.system.logs import Logs
from pml_kit.system.redaction import Redactor
from pml_mcp.clients.guides import Guides
from pml_mcp.clients.pending_input import PendingInput
from pml_mcp.clients.status import StatusResource, live_offers
from pml_mcp.servers import Server, kind_of
from pml_mcp.servers.catalog_cache import CatalogCache, LockWatch
from pml_mcp.servers.extensions import Extensions
from pml_mcp.servers.features import Features
from pml_mcp.servers.links import Links
from pml_mcp.servers.servers import Servers
from pml_mcp.wire.upstream import Upstream
from pml_settings.endpoints import found_endpoint
from pml_settings.rehearsals import Rehearsals

from .active_config import ActiveConfig
from .announcement import Announcement
from .kernel.identities import AccessWatchers, KnownIdentities, LiveAccess
from .kernel.static_checks import LiveChecks
from .kernel.tracing import NamedTracer, Tracing
from .plugins import local_plugins
from .plugins.assembly import Assembly
from .plugins.offers import Offers
from .plugins.supervisor import Supervisor
from .services import PluginServices, ServiceParts

if TYPE_CHECKING:
    from pml_hookspecs import Session, Transport
    from pml_mcp.clients.conversation import Conversation
    from pml_mcp.server_settings import ServerSettings
    from pml_mcp.servers.connection.starts import Starts
    from pml_settings.config import Config

    from .kernel.executors import Executors
    from .plugins.registry import Record

MOST_PENDING = 10_000
"""Requests that wait for their clients to come back with answers, at a time."""


class Parts:
    """The parts of a gateway that are there before it starts."""

    def __init__(self, config: Config, logs: Logs | None, records: list[Record] | None, *, one_client: bool) -> None:
        """As :class:`pml_core.gateway.Gateway`."""
        self.version = metadata.version("pml-core")
        self.redactor = Redactor()
        self.redactor.learn(config.secrets())
        self.logs = logs or Logs(config.gateway.log_level, config.gateway.log_format)
        self.logs.redactor = self.redactor
        self.log = self.logs.get()
        self.supervisor = Supervisor(self.log, strict=config.gateway.strict)
        found = local_plugins.found(config) if records is None else records
        self.supervisor.guards = frozenset(record.name for record in found if record.guard)
        self.catalog = LiveCatalog(self.log)
        self.filters = Filters((), self.log, refusal(lambda: self.active.config.servers, self.catalog))
        self.rehearsals = Rehearsals(lambda: self.active.config)
        assembly = Assembly(config, found, self._services_for, self.log, self.redactor.learn)
        self.active = ActiveConfig(config, assembly, self._exposures(config, assembly))
        self.transport = Transports(self.active).of
        self._make_clients_and_servers(one_client=one_client)
        self._tell_and_serve()

    def _make_clients_and_servers(self, *, one_client: bool) -> None:
        self.conversations: set[Conversation] = set()
        self.upstream = Upstream(self.conversations, one_client=one_client)
        self.servers: dict[str, Server] = {}
        self.server_pool = Servers(
            self.servers,
            self.catalog,
            self.upstream,
            self.log,
            settings=lambda: self.active.config.gateway,
            make_server=self._server,
            remember=self._remember,
            spawn=self.soon,
        )
        self.lock = LockWatch(lambda: self.config, self.servers, self.log)
        self.own_tools = OwnTools(self.catalog, self.servers)
        self.guides = Guides(())
        self.features = Features(self.servers, self.log, lambda: self.guides.names, self.catalog)
        self.links, self.extensions = Links(self.features, self.allows), Extensions(self.servers)
        self.pending_input = PendingInput(self.config.gateway.answer_wait_s, MOST_PENDING)
        self.offers = Offers()
        self.identities, self.access_watchers = KnownIdentities((), self.log), AccessWatchers((), self.log)

    def _tell_and_serve(self) -> None:
        active, catalog, rehearsals, log = self.active, self.catalog, self.rehearsals, self.log
        self.announcement = Announcement(
            active,
            catalog,
            rehearsals,
            self.supervisor,
            self.offers,
            log,
            servers=lambda: {*self.servers, *self.own_tools.servers},
        )
        modes = self.announcement.modes
        self.status = StatusResource(self.version, catalog, self.servers, rehearsals, self._plugin_states, modes).of
        self._services = ServiceParts(
            log=log,
            catalog=catalog,
            own_tools=self.own_tools,
            offers=self.offers,
            redactor=self.redactor,
            supervisor=self.supervisor,
            view=active.view,
        )
        make_mode = partial(active.tried_mode, make_services=self._services_for)
        views = LiveViews(lambda: active.exposures, make_mode, catalog, self.filters, rehearsals, log)
        self.checks, access = LiveChecks(log), LiveAccess(self.identities, self.access_watchers)
        self.offers.add(Offer(VIEWS, views), Offer(ACCESS, access), Offer(STATIC_CHECKS, self.checks))
        parts = self.supervisor.closed, self.supervisor.health, lambda: self.assembly.installed("executor")
        others = lambda: self.store, lambda: self.config.gateway, partial(self.offers.find_all, READINESS_CHECKS)
        self.readiness = LiveReadiness(catalog, *parts, *others)
        live = live_offers(self.conversations, self.servers, lambda: self.store, self.access_watchers)
        self.offers.add(Offer(READINESS, self.readiness), *live)

    def _services_for(self, plugin: str, settings: Any) -> PluginServices:
        return PluginServices(self._services, plugin, settings)

    def _plugin_states(self) -> dict[str, str]:
        return {one.name: self.supervisor.health.get(one.name, one.state) for one in self.assembly.records}

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.active.config

    @property
    def assembly(self) -> Assembly:
        """The plugins, with their settings from it."""
        return self.active.assembly

    @property
    def exposures(self) -> Exposures:
        """What it says clients are shown."""
        return self.active.exposures

    @property
    def store(self) -> Store | None:
        """None before it is open."""
        return self._services.store

    def soon(self, func: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Do something in the background, while the gateway is up; its failure is logged."""
        self.supervisor.spawn("core", func, args, getattr(func, "__name__", "task"))

    def allows(self, name: str, session: Session) -> bool:
        """Whether ``session`` may have what patterns call ``name``: a tool, or what is none."""
        return self.catalog.allows(entry_of(name, self.catalog), session)

    def _exposures(self, config: Config, assembly: Assembly, before: Exposures | None = None) -> Exposures:
        own = self.catalog, self.filters, self.supervisor, self.rehearsals, self.log
        return Exposures(config.exposure_settings(), assembly, *own, before)

    def _server(self, name: str, settings: ServerSettings, starts: Starts) -> Server:
        limits = self.config.gateway
        return kind_of(settings)(
            name,
            settings,
            partial(found_endpoint, name, settings, self.redactor.learn),
            self.transport,
            self.catalog,
            self.log,
            start_timeout_s=limits.start_timeout_s,
            call_timeout_s=limits.call_timeout_s,
            upstream=self.upstream,
            starts=starts,
            redactor=self.redactor,
        )

    async def _remember(self, servers: Mapping[str, Server]) -> None:
        """Show what is known of servers that are not up yet, and keep what they list."""
        if self.store is not None:
            remembered = CatalogCache(self.store, self.supervisor, self.access_watchers, self.log, self.lock)
            await remembered.begin(servers, self.catalog)


class Transports:
    """The drivers by which servers are reached and clients are served, each made when it is used first."""

    def __init__(self, active: ActiveConfig) -> None:
        self._active = active
        self._made: dict[str, Transport] = {}

    def of(self, scheme: str) -> Transport:
        """The driver for addresses of ``scheme``.

        Raises:
            TransportError: None is installed, or it cannot be made.
        """
        if scheme not in self._made:
            try:
                self._made[scheme] = self._active.assembly.driver("transport", scheme)
            except OperatorError as exc:
                raise TransportError(str(exc), retryable=False) from exc
        return self._made[scheme]


async def open_store(active: ActiveConfig, supervisor: Supervisor, log: Any) -> Store:
    """Open the store, or keep the last executions in memory where none is chosen, or a default is not installed.

    Raises:
        OperatorError: It cannot be opened.
    """
    config, assembly = active.config, active.assembly
    name = config.gateway.store
    if not name or (name not in assembly.installed("store") and config.says("gateway.store") is None):
        from .plugins.nulls import MemoryStore

        problem = "it is not installed" if name else "none is chosen"
        log.warning("there is no store; the last executions are kept in memory", problem=problem, store=name)
        return MemoryStore()
    store: Store = assembly.driver("store", name)
    await supervisor.enter(name, store, required=True)
    assembly.check_driver("store", name, store, "open store")
    return store


async def open_tracers(active: ActiveConfig, supervisor: Supervisor, log: Any) -> Tracing:
    """Open the configured tracers; those that are a default are done without where they are not installed.

    Raises:
        OperatorError: One cannot be opened.
    """
    named, config, assembly = [], active.config, active.assembly
    chosen = config.says("gateway.tracers") is not None
    for name in config.gateway.tracers:
        if not chosen and name not in assembly.installed("tracer"):
            continue
        tracer = assembly.driver("tracer", name)
        await supervisor.enter(name, tracer, required=True)
        supervisor.on_close(tracer.flush)
        named.append(NamedTracer(name, tracer))
    return Tracing(named, log)


async def open_executors(active: ActiveConfig, supervisor: Supervisor, executors: Executors) -> None:
    """Add those that the configuration names, and those that are installed and need not be named.

    Raises:
        OperatorError: One cannot be opened, or two run the same.
    """
    assembly, chosen = active.assembly, active.config.gateway.executors
    for name in sorted({*chosen.values(), *assembly.installed("executor")}):
        if executors.leaves_out(name, assembly.driver_class("executor", name), chosen):
            continue
        executor = assembly.driver("executor", name)
        await supervisor.enter(name, executor, required=True)
        executors.add(name, executor, chosen)


def refuse(plugin: str, where: str, exc: Exception) -> NoReturn:
    """Without those who say what may be done, everybody could do everything.

    Raises:
        OperatorError: Always.
    """
    raise OperatorError(
        f"plugin {plugin!r} failed in {where}: {exc}; the gateway does not start without what it guards",
        f'Mend it, or block it if you mean to do without: [gateway] block = ["{plugin}"].',
    ) from exc
