"""The gateway: which parts there are, in which order they start, and what connects them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Self

from pml_hookspecs import Store, TransportError

from . import local_plugins, registry
from .admission import Admission, Filters
from .announcement import Announcement
from .assembly import Assembly, check_required
from .attempts import Attempts
from .background import Background
from .bm25 import Bm25Index
from .catalog import LiveCatalog
from .chain import HOOK, Wrapped, fold, ordered, wrapped
from .config import Config
from .direct import DirectExecutor
from .dispatch import Dispatcher
from .downstream import Downstream
from .errors import OperatorError
from .executors import DURABLE, Executors
from .exposures import Exposures
from .extensions import Extensions
from .features import Features
from .fleet import Fleet
from .foresight import Foresight
from .guides import Guides
from .hooks import Fault
from .identities import AccessWatchers, KnownIdentities
from .introduction import finders
from .links import Links
from .logs import Logs
from .naming import entry_of, name_of
from .nulls import MemoryStore
from .own_tools import OwnTools
from .parking import Parking
from .recorder import Recorder
from .redaction import Redactor
from .references import References
from .rehearsals import Rehearsals
from .remembered import Remembered
from .services import PluginServices
from .standing import Standing
from .status import status_of
from .supervisor import Supervisor
from .tool_rules import refusal
from .tracing import NamedTracer, Tracing
from .upstream import Upstream
from .views import LiveViews

if TYPE_CHECKING:
    from pml_hookspecs import Embedder, Handler, Link, Peer, Session, Suggester, Transport

    from .conversation import Conversation
    from .downstream import Server


MOST_PARKED = 10_000
"""Requests that wait for their clients to come back with answers, at a time."""
CAPABILITIES: Mapping[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
"""What servers may offer."""


class Gateway:
    """One running gateway. An async context manager: entered it is up, left everything is gone."""

    def __init__(
        self,
        config: Config,
        logs: Logs | None = None,
        records: list[registry.Record] | None = None,
        *,
        one_client: bool = False,
        connect: bool = True,
    ) -> None:
        """Nothing starts yet.

        Args:
            config: What to run.
            logs: Where to log; as configured if not given.
            one_client: There will be exactly one client, on stdio: servers are told what it can do.
            connect: False starts no server: the catalog is as it was last time (for commands that only look).
            records: The plugins to use; those installed if not given.
        """
        self.config, self.version = config, metadata.version("pml-core")
        self.redactor = Redactor()
        self.redactor.learn(config.secrets())
        self.logs = logs or Logs(config.gateway.log_level, config.gateway.log_format)
        self.logs.redactor = self.redactor
        self.log = self.logs.get()
        self.supervisor = Supervisor(self.log, strict=config.gateway.strict)
        found = local_plugins.found(config) if records is None else records
        self.supervisor.guards = frozenset(record.name for record in found if record.guard)
        self.assembly = Assembly(config, found, self._services_for, self.log, self.redactor.learn)
        self.catalog = LiveCatalog(self.log, Bm25Index())
        self.servers: dict[str, Server] = {}
        self.fleet = Fleet(self)
        self.own_tools = OwnTools(self.catalog, self.servers)
        self._connect = connect
        self.conversations: set[Conversation] = set()
        self.upstream = Upstream(self.conversations, one_client=one_client)
        self.features = Features(self.servers, self.log, lambda: self.guides.names, self.catalog.pages)
        self.links, self.extensions = Links(self.features, self.allows), Extensions(self.servers)
        self.parking = Parking(config.gateway.answer_wait_s, MOST_PARKED)
        self.wrappers: list[Wrapped] = []
        self.suggesters: list[tuple[str, Suggester]] = []
        self.embedder: Embedder | None = None
        self.store: Store | None = None
        self.filters = Filters((), self.log, refusal(lambda: self.config.servers, self.catalog))
        self.rehearsals = Rehearsals(lambda: self.config)
        self.exposures: Exposures
        self.views, self.announcement = LiveViews(self), Announcement(self)
        self.identities, self.access_watchers = KnownIdentities((), self.log), AccessWatchers((), self.log)
        self.dispatcher: Dispatcher
        self.background: Background
        self._executors: Executors
        self.foresight: Foresight
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
        self.fleet.make(self.config.servers)
        store = await self.open_store()
        self.supervisor.on_close(self.fleet.stop)  # before the store, after all that may still need servers
        tracing = await self._open_tracers()
        self.assembly.load_hooks(self.supervisor.fault)
        self.announcement.warn_of_unknown_tables()
        self.announcement.tell_of_projects()
        self._choose_index()
        self.filters.use(self._gather("pml_filter_tools", self._refuse))
        self.catalog.filter_with(self.filters.refusing, self.filters.hides)
        self.guides = Guides(self._gather("pml_guides"))
        self.own_tools.offer([*self._gather("pml_meta_tools"), *self.guides.tools()])
        self.suggesters = self._gather("pml_suggesters")
        self.identities = KnownIdentities(self._gather("pml_identities", self._refuse), self.log)
        self.gather_watchers()
        self.dispatcher = self._dispatcher(store, tracing)
        self.dispatcher.chain = await self._fold_chain(store)
        self.background = Background(
            store,
            self.dispatcher,
            self.log,
            is_durable=lambda: self._executors.runs(DURABLE),
            has_turns=self.own_tools.has_turns,
            references=References(self.redactor, store),
        )
        self.dispatcher.in_background = self.background.start
        self.dispatcher.begins = self.background.begins
        self.exposures = Exposures(
            self.config, self.assembly, self.catalog, self.filters, self.supervisor, self.rehearsals, self.log
        )
        await self.exposures.open()
        await self.remember(self.servers)
        if self._connect:
            self.fleet.start()
        for plugin, lifespan in self._gather("pml_lifespan") if self._connect else ():
            await self.supervisor.enter(plugin, lifespan, required=False)
        check_required(self.config.gateway.required, self.assembly.records, self.supervisor.failed)
        self.supervisor.on_close(self.background.close)
        self.supervisor.on_close(self.parking.close)
        self.catalog.on_change(self.lists_may_differ)
        if self._connect:
            self.soon(self._open)
            self.soon(self.announcement.begin)
            self.soon(self.background.live)
            self.soon(self.background.watch)

    def gather_watchers(self) -> None:
        """Ask the loaded plugins who hears of access and changes."""
        self.access_watchers = AccessWatchers(self._gather("pml_access_watchers"), self.log)

    def _dispatcher(self, store: Store, tracing: Tracing) -> Dispatcher:
        settings = self.config.gateway
        full = settings.durability == "full"
        recorder = Recorder(store.executions, self.redactor, settings.record_bytes, self.log, full=full)
        return Dispatcher(
            self.catalog,
            self.own_tools,
            tracing,
            recorder,
            self.log,
            rehearsals=self.rehearsals,
            servers_settled=self.servers_settled,
            read_again=self.fleet.read_again,
        )

    async def close(self) -> None:
        """Leave everything, in reverse order."""
        if self._changed is not None:
            self._changed.cancel()
        await self.supervisor.close()
        await self.fleet.stop()  # those that had begun when the store could not be opened
        await self.catalog.close()

    async def serve(self, address: str, *, started: Callable[[str], None] | None = None) -> None:
        """Serve clients at ``address`` until there can be no more of them.

        Args:
            address: ``stdio:`` or ``http://host:port``, say.
            started: Called with the bound address once clients can connect.

        Raises:
            OperatorError: No transport serves such an address.
        """
        from .serving import serve

        await serve(self, address, started or (lambda bound: self.log.debug("listening", address=bound)))

    def accept(self, link: Link, peer: Peer) -> Handler:
        """Begin a conversation with a client; what it sends goes to the handler returned.

        Raises:
            LookupError: There is no such endpoint.
        """
        from .conversation import Conversation

        conversation = Conversation(self, link, peer)
        self.conversations.add(conversation)
        return conversation

    def left(self, conversation: Conversation) -> None:
        """A client is gone, and with it what was only for it."""
        self.conversations.discard(conversation)
        for server in self.servers.values():
            if server.has_of_its_own(conversation):
                self.soon(server.client_left, conversation)

    def soon(self, func: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Do something in the background, while the gateway is up; its failure is logged."""
        self.supervisor.spawn("core", func, args, getattr(func, "__name__", "task"))

    def capabilities(self) -> dict[str, Any]:
        """What clients are told that they may use; it does not wait for servers to say what they do offer."""
        return {**CAPABILITIES, **self.extensions.declared()}

    def may_know(self, server: str, session: Session) -> bool:
        """Whether ``session`` may have anything of a server."""
        if any(status.name == server for status in self.catalog.servers(session)):
            return True
        return any(self.allows(name_of(server, kind, ""), session) for kind in ("resource", "prompt"))

    def allows(self, name: str, session: Session) -> bool:
        """Whether ``session`` may have what patterns call ``name``: a tool, or what is none."""
        return self.catalog.allows(entry_of(name, self.catalog), session)

    # Servers

    async def _open(self) -> None:
        """Let servers start once the client has its greeting: their starts would take its processor."""
        await self.upstream.hello()
        self.fleet.open()

    async def remember(self, servers: Mapping[str, Server]) -> None:
        """Show what is known of servers that are not up yet, and keep what they list."""
        if self.store is not None:
            remembered = Remembered(self.store, self.supervisor, self.access_watchers, self.log)
            await remembered.begin(servers, self.catalog)

    def transport(self, scheme: str) -> Transport:
        """The driver for addresses of ``scheme``.

        Raises:
            TransportError: None is installed, or it cannot be made.
        """
        if scheme not in self._transports:
            try:
                self._transports[scheme] = self.assembly.driver("transport", scheme)
            except OperatorError as exc:
                raise TransportError(str(exc), retryable=False) from exc
        return self._transports[scheme]

    async def servers_tried(self) -> None:
        """Wait, within ``list_wait_s``, for servers whose tools were never seen."""
        await self.fleet.tried(self.config.gateway.list_wait_s)

    async def servers_settled(self, tool: str | None = None, *, listing: bool = False) -> None:
        """Wait, within ``list_wait_s``, for what is needed: see :meth:`Fleet.settled`."""
        await self.fleet.settled(self.config.gateway.list_wait_s, tool, listing=listing)
        await self.fleet.settled_for_client(tool)

    # Parts

    async def open_store(self) -> Store:
        """Open the configured store, or keep the last executions in memory when none is installed.

        Raises:
            OperatorError: It cannot be opened.
        """
        name = self.config.gateway.store
        if name not in self.assembly.installed("store") and self.config.says("gateway.store") is None:
            self.log.warning("no store is installed; the last executions are kept in memory", store=name)
            self.store = MemoryStore()
            return self.store
        store: Store = self.assembly.driver("store", name)
        await self.supervisor.enter(name, store, required=True)
        self.store = store
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

    def _gather(self, hook: str, on_fault: Fault | None = None) -> list[tuple[str, Any]]:
        return self.assembly.gather(hook, on_fault or self.supervisor.fault)

    @staticmethod
    def _refuse(plugin: str, where: str, exc: Exception) -> None:
        """Without those who say what may be done, everybody could do everything."""
        raise OperatorError(
            f"plugin {plugin!r} failed in {where}: {exc}; the gateway does not start without what it guards",
            f'Mend it, or block it if you mean to do without: [gateway] block = ["{plugin}"].',
        ) from exc

    def _choose_index(self) -> None:
        self.embedder = next((embedder for _, embedder in self._gather("pml_embedders")), None)
        for plugin, index in self._gather("pml_search_index"):
            self.log.debug("search index", plugin=plugin)
            self.catalog.use_index(index)
            return

    async def _fold_chain(self, store: Store) -> Any:
        followable, learn = self.links.followable, self.extensions.learn
        downstream = Downstream(self.servers, learn, started=self._connect, followable=followable)
        direct = DirectExecutor(downstream, self.own_tools)
        executors = self._executors = Executors(direct, self.catalog, self.rehearsals)
        named = set(self.config.gateway.executors.values())
        for name in sorted({*named, *self.assembly.installed("executor")}):
            cls = self.assembly.driver_class("executor", name)
            if executors.leaves_out(name, cls, self.config.gateway.executors):
                continue
            executor = self.assembly.driver("executor", name)
            await self.supervisor.enter(name, executor, required=True)
            executors.add(name, executor, self.config.gateway.executors)
        attempts = Attempts(store, self.config.gateway.max_resumes, self.log)
        standing = Standing(lambda: self.identities, self.log)
        closed, found_by = self.supervisor.closed, partial(finders, self)
        admission = Admission(self.catalog, self.filters, standing, attempts, self.access_watchers, closed, found_by)
        wrappers = [Wrapped("core", admission)]
        wrappers += wrapped(self._gather(HOOK), self.supervisor.fault)
        self.wrappers = ordered(wrappers)
        self.foresight = Foresight(self.dispatcher, executors, self.wrappers, self.log)
        return fold(wrappers, executors.execute, self.log)

    # The catalog changes

    def lists_may_differ(self) -> None:
        """Tell clients whose lists do, once for all changes that come together."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_task(self._tell_all(), name="list-changed")

    async def _tell_all(self) -> None:
        told = None
        while told != (now := (self.catalog.changes, self.exposures)):
            told = now
            await asyncio.gather(*(c.tools_changed() for c in tuple(self.conversations)))

    def status(self, session: Session) -> dict[str, Any]:
        """What the status resource shows ``session``."""
        return status_of(self, session)
