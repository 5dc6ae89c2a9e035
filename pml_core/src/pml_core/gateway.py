"""The gateway: which parts there are, in which order they start, and what connects them."""

from __future__ import annotations

import asyncio
import contextlib
from importlib import metadata
from typing import TYPE_CHECKING, Any, Self

from pml_hookspecs import Endpoint, MetaTool, ServerStatus, Store, TransportError

from . import registry
from .admission import Admission, Filters
from .assembly import Assembly
from .bm25 import Bm25Index
from .catalog import LiveCatalog
from .chain import Wrapped, fold, ordered
from .config import Config
from .direct import DirectExecutor
from .dispatch import Dispatcher
from .downstream import Downstream, Server
from .endpoints import scheme_of
from .errors import OperatorError
from .executors import Executors
from .exposure import Exposure, MetaOnlyView
from .features import Features
from .logs import Logs
from .nulls import MemoryStore
from .recorder import Recorder
from .redaction import Redactor
from .services import PluginServices
from .supervisor import Supervisor
from .tracing import NamedTracer, Tracing
from .upstream import Upstream

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, ExposureMode, Handler, Link, Peer, Transport

    from .conversation import Conversation


AFTER_FIRST_LIST_S = 0.3


class Gateway:
    """One running gateway. An async context manager: entered it is up, left everything is gone."""

    def __init__(
        self,
        config: Config,
        logs: Logs | None = None,
        records: list[registry.Record] | None = None,
        *,
        one_client: bool = False,
    ) -> None:
        """Nothing starts yet.

        Args:
            config: What to run.
            logs: Where to log; as configured if not given.
            one_client: There will be exactly one client, on stdio: servers are told what it can do.
            records: The plugins to use; those installed if not given.
        """
        self.config, self.version = config, metadata.version("pml-core")
        self.redactor = Redactor()
        self.redactor.learn(config.secrets())
        self.logs = logs or Logs(config.gateway.log_level, config.gateway.log_format)
        self.logs.redactor = self.redactor
        self.log = self.logs.get()
        self.supervisor = Supervisor(self.log, strict=config.gateway.strict)
        found = registry.discover(frozenset(config.gateway.block)) if records is None else records
        self.assembly = Assembly(config, found, self._services_for, self.log, self.redactor.learn)
        self.catalog = LiveCatalog(self.log, Bm25Index())
        self.servers: dict[str, Server] = {}
        self.conversations: set[Conversation] = set()
        self.upstream = Upstream(self.conversations, one_client=one_client)
        self.features = Features(self.servers, self.log)
        self.wrappers: list[Wrapped] = []
        self.store: Store | None = None
        self.exposure: Exposure
        self.dispatcher: Dispatcher
        self._server_tasks: list[asyncio.Task[None]] = []
        self._transports: dict[str, Transport] = {}
        self._changed: asyncio.Task[None] | None = None

    def _services_for(self, plugin: str, settings: Any) -> PluginServices:
        return PluginServices(self, plugin, settings)

    # Life

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _start(self) -> None:
        # Servers take the longest to start, so they start first, and the rest is loaded meanwhile.
        self._start_servers()
        await asyncio.sleep(0)
        self.store = await self._open_store()
        tracing = await self._open_tracers()
        self.assembly.load_hooks(self.supervisor.fault)
        self.assembly.warn_of_unknown_tables()
        self._choose_index()
        filters = Filters(self._gather("pml_filter_tools"), self.log)
        self.catalog.filter_with(filters.refusing)
        meta_tools = self._gather_meta_tools()
        recorder = Recorder(self.store.executions, self.redactor, self.config.gateway.record_bytes)
        dry_run = self.config.gateway.execution_mode == "dry_run"
        self.dispatcher = Dispatcher(
            self.catalog, meta_tools, tracing, recorder, self.log, dry_run=dry_run, servers_tried=self.servers_tried
        )
        self.dispatcher.chain = await self._fold_chain(filters, meta_tools)
        self.exposure = Exposure(await self._open_mode(), self.catalog, filters, self.log)
        await self._remember_catalog()
        for plugin, lifespan in self._gather("pml_lifespan"):
            await self.supervisor.enter(plugin, lifespan, required=False)
        self.supervisor.on_close(self._stop_servers)
        self.catalog.on_change(self._catalog_changed)
        self.supervisor.spawn("core", self._announce, (), "announce")

    async def _announce(self) -> None:
        """Log what is running (EXP-38), once the first client need not wait for it: structlog takes its time."""
        await self.servers_tried()
        await asyncio.sleep(AFTER_FIRST_LIST_S)
        down = {s.name: s.reason for s in self.catalog.servers() if s.state == "down"}
        up = sum(s.state == "up" for s in self.catalog.servers())
        mode = self.config.gateway.tools_exposure
        self.log.info("gateway is running", mode=mode, servers_up=up, servers_down=down, tools=len(self.catalog))
        if not self.servers:
            self.log.warning("no servers are configured; pml import takes them from your MCP client")
        for note in self.config.notes:
            self.log.info("configuration", note=note)

    async def close(self) -> None:
        """Leave everything, in reverse order."""
        if self._changed is not None:
            self._changed.cancel()
        await self._stop_servers()
        await self.supervisor.close()

    async def serve(self, address: str) -> None:
        """Serve clients at ``address`` until there can be no more of them.

        Raises:
            OperatorError: No transport serves such an address.
        """
        try:
            transport = self._transport(scheme_of(address))
        except TransportError as exc:
            raise OperatorError(f"cannot serve clients at {address!r}: {exc}") from exc
        try:
            await transport.serve(
                Endpoint(name="default", address=address),
                self.accept,
                started=lambda bound: self.log.debug("listening", address=bound),
            )
        except NotImplementedError as exc:
            raise OperatorError(f"cannot serve clients at {address!r}: {exc}") from exc

    def accept(self, link: Link, peer: Peer) -> Handler:
        """Begin a conversation with a client; what it sends goes to the handler returned."""
        from .conversation import Conversation

        conversation = Conversation(self, link, peer, "default")
        self.conversations.add(conversation)
        return conversation

    # Servers

    def _start_servers(self) -> None:
        gateway = self.config.gateway
        for name, settings in self.config.servers.items():
            server = Server(
                name,
                settings,
                self._transport,
                self.catalog,
                self.log,
                start_timeout_s=gateway.start_timeout_s,
                call_timeout_s=gateway.call_timeout_s,
                upstream=self.upstream,
                redact=self.redactor.text,
            )
            self.servers[name] = server
            if settings.enabled:
                task = asyncio.get_running_loop().create_task(server.run(), name=f"server:{name}")
                self._server_tasks.append(task)

    async def _stop_servers(self) -> None:
        tasks, self._server_tasks = self._server_tasks, []
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                self.log.error("a server's keeper failed", error=repr(outcome))

    def _transport(self, scheme: str) -> Transport:
        if scheme not in self._transports:
            try:
                self._transports[scheme] = self.assembly.driver("transport", scheme)
            except OperatorError as exc:
                raise TransportError(str(exc), retryable=False) from exc
        return self._transports[scheme]

    async def servers_tried(self) -> None:
        """Wait, within ``list_wait_s``, for servers whose tools were never seen."""
        waiting = [s for s in self.servers.values() if s.status.state == "starting" and not s.status.tools]
        if waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.config.gateway.list_wait_s):
                    await asyncio.gather(*(s.tried() for s in waiting))

    # Parts

    async def _open_store(self) -> Store:
        name = self.config.gateway.store
        if name not in self.assembly.installed("store") and self.config.says("gateway.store") is None:
            self.log.warning("no store is installed; the last executions are kept in memory", store=name)
            return MemoryStore()
        store: Store = self.assembly.driver("store", name)
        await self.supervisor.enter(name, store, required=True)
        return store

    async def _open_tracers(self) -> Tracing:
        named = []
        chosen = self.config.says("gateway.tracers") is not None
        for name in self.config.gateway.tracers:
            if not chosen and name not in self.assembly.installed("tracer"):
                continue
            tracer = self.assembly.driver("tracer", name)
            await self.supervisor.enter(name, tracer, required=True)
            self.supervisor.on_close(tracer.flush)
            named.append(NamedTracer(name, tracer))
        return Tracing(named, self.log)

    def _gather(self, hook: str) -> list[tuple[str, Any]]:
        return self.assembly.gather(hook, self.supervisor.fault)

    def _choose_index(self) -> None:
        for plugin, index in self._gather("pml_search_index"):
            self.log.debug("search index", plugin=plugin)
            self.catalog.use_index(index)
            return

    def _gather_meta_tools(self) -> dict[str, MetaTool]:
        tools: dict[str, MetaTool] = {}
        owners: dict[str, str] = {}
        for plugin, tool in self._gather("pml_meta_tools"):
            for name in (tool.definition["name"], *tool.aliases):
                if name in owners:
                    message = f"tool {name!r} is claimed by plugins {owners[name]!r} and {plugin!r}"
                    raise OperatorError(message, f"Block one of them: [gateway] block = [{plugin!r}]")
                owners[name] = plugin
            tools[tool.definition["name"]] = tool
        self.catalog.offer(tools.values())
        return tools

    async def _fold_chain(self, filters: Filters, meta_tools: dict[str, MetaTool]) -> Any:
        executors = Executors(DirectExecutor(Downstream(self.servers), meta_tools), self.catalog)
        for name in self._executor_names():
            executor = self.assembly.driver("executor", name)
            await self.supervisor.enter(name, executor, required=True)
            executors.add(name, executor, self.config.gateway.executors)
        wrappers = [Wrapped("core", Admission(self.catalog, filters))]
        wrappers += [Wrapped(plugin, wrapper) for plugin, wrapper in self._gather("pml_wrap_executor")]
        self.wrappers = ordered(wrappers)
        return fold(wrappers, executors.execute, self.log)

    def _executor_names(self) -> list[str]:
        return sorted(set(self.config.gateway.executors.values())) or self.assembly.installed("executor")

    async def _open_mode(self) -> ExposureMode:
        name = self.config.gateway.tools_exposure
        installed = self.assembly.installed("exposure_mode")
        if name not in installed:
            unknown = f"Unknown tools_exposure mode: {name}, defaulting to meta_only"  # the text of EXP-9
            self.log.warning(unknown, installed=installed)
            name = "meta_only"
        if name not in installed:
            return MetaOnlyView()
        mode: ExposureMode = self.assembly.driver("exposure_mode", name)
        await self.supervisor.enter(name, mode, required=True)
        return mode

    # The catalog, remembered and changing

    async def _remember_catalog(self) -> None:
        """Start with the tools known from last time, and keep what servers list from now on."""
        for server in self.servers.values():
            server.on_listed, server.on_status = self._save_tools, self._save_status
            if server.status.state == "up":
                self._save_tools(server, [e for e in self.catalog if e.server == server.name])
                self._save_status(server.status)
            elif server.settings.enabled and self.store is not None:
                server.remember(await self.store.catalog.entries(server.name, server.fingerprint))

    def _save_tools(self, server: Server, entries: list[CatalogEntry]) -> None:
        if self.store is not None:
            save = self.store.catalog.replace
            self.supervisor.spawn("core", save, (server.name, server.fingerprint, entries), f"save:{server.name}")

    def _save_status(self, status: ServerStatus) -> None:
        if self.store is not None:
            self.supervisor.spawn("core", self.store.catalog.report, (status,), f"report:{status.name}")

    def _catalog_changed(self) -> None:
        """Tell clients once for all changes that come together."""
        if self._changed is None or self._changed.done():
            from .conversation import tell_all

            self._changed = asyncio.get_running_loop().create_task(self._tell(tell_all), name="list-changed")

    async def _tell(self, tell_all: Any) -> None:
        revision = None
        while revision != self.catalog.revision:
            revision = self.catalog.revision
            await tell_all(self.conversations)

    def subscribed(self, uri: str) -> bool:
        """Whether any client wants to hear of changes of a resource."""
        return any(conversation.subscribes(uri) for conversation in self.conversations)

    def status(self) -> dict[str, Any]:
        """What the status resource shows."""
        servers = [
            {
                "name": s.name,
                "state": s.state,
                "reason": s.reason,
                "tools": s.tools,
                "restarts": s.restarts,
            }
            for s in self.catalog.servers()
        ]
        plugins = {r.name: self.supervisor.health.get(r.name, r.state) for r in self.assembly.records}
        mode = self.config.gateway.tools_exposure
        return {"version": self.version, "mode": mode, "servers": servers, "plugins": plugins}
