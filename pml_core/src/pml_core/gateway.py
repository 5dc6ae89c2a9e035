"""The gateway: which parts there are, in which order they start, and what connects them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from pml_background.executions import Background
from pml_background.journal import Journal
from pml_background.key_recheck import KeyRecheck
from pml_background.resume_limit import ResumeLimit
from pml_background.secret_references import SecretReferences
from pml_kit.offers import (
    ACCESS_WATCHERS,
    ANSWERS,
    DEFINITIONS,
    GUIDES,
    IDENTITIES,
    INDIRECT_CALLS,
    PRESENTATION,
    RESOURCE_TOOLS,
    SEARCH,
    SELECTORS,
)
from pml_kit.order import in_order
from pml_mcp.clients.answers import Answers
from pml_mcp.clients.guides import Guides
from pml_mcp.clients.introduction import Introduction, ServerInfo
from pml_mcp.clients.mcp_tasks import Tasks
from pml_mcp.servers.direct import DirectExecutor
from pml_mcp.wire.listeners import ListComparison

from .assemble import Parts, open_executors, open_store, open_tracers, refuse
from .kernel.admission import Admission
from .kernel.chain import HOOK, NamedWrapper, fold
from .kernel.dispatch import Dispatcher
from .kernel.executors import DURABLE, Executors
from .kernel.recorder import Recorder
from .plugins import offers
from .plugins.assembly import check_required
from .plugins.hooks import Fault
from .services import Runners

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Handler, Link, Peer, Store
    from pml_kit.system.logs import Logs
    from pml_mcp.clients.conversation import Conversation
    from pml_mcp.clients.handler import ClientParts
    from pml_settings.config import Config

    from .kernel.tracing import Tracing
    from .plugins import registry
    from .reload import Reload


class Gateway(Parts):
    """One running gateway. An async context manager: entered it is up, left everything is gone."""

    wrappers: Sequence[NamedWrapper] = ()
    """Outermost first."""
    answers: Answers
    dispatcher: Dispatcher
    background: Background
    tasks: Tasks
    """This and the three above are there once it is up."""

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
        super().__init__(config, logs, records, one_client=one_client)
        self._connect = connect
        self._changed: asyncio.Task[None] | None = None

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
        self.server_pool.make(self.config.servers)
        store = await self.open_store()
        self.journal = Journal(store, self.log)
        self.supervisor.on_close(self.journal.close)
        self.supervisor.on_close(self.server_pool.stop)  # before the store, after all that may still need servers
        tracing = await open_tracers(self.active, self.supervisor, self.log)
        self.assembly.load_hooks(self.supervisor.fault)
        self.announcement.warn_of_unknown_tables()
        self.announcement.tell_of_projects()
        self.gather_offers()
        self._use_plugins()
        self.dispatcher = self._dispatcher(tracing)
        executors = await self._executors()
        self.dispatcher.chains = self._chains(store, executors)
        self.background = Background(
            store,
            self.dispatcher,
            self.log,
            is_durable=lambda: executors.runs(DURABLE),
            has_turns=self.own_tools.has_turns,
            references=SecretReferences(self.redactor, store),
        )
        self.dispatcher.in_background = self.background.start
        self.dispatcher.begins, self.dispatcher.may_record = self.background.begins, self.background.may_record
        self.checks.begin(self.dispatcher, executors, self.wrappers)
        self._services.runners = Runners(self.dispatcher, self.background)
        self.answers = Answers(self.offers.find_all(SELECTORS), self.offers.find_all(ANSWERS), self.log)
        self.tasks = Tasks(store, self.background, self.identities, self.access_watchers, self.answers)
        await self.exposures.open()
        await self._remember(self.servers)
        if self._connect:
            self.server_pool.start()
        for plugin, lifespan in self._gather("pml_lifespan") if self._connect else ():
            await self.supervisor.enter(plugin, lifespan, required=False)
        check_required(self.config.gateway.required, self.assembly.records, self.supervisor.failed)
        self.supervisor.on_close(self.background.close)
        self.supervisor.on_close(self.pending_input.close)
        comparison = ListComparison(store.documents, self.catalog.digests, self.conversations)
        self.catalog.on_change(self.lists_may_differ)
        self.catalog.on_change(comparison.changed)
        self._services.lists_changed = self.lists_changed
        if self._connect:
            self.soon(self._open)
            self.soon(comparison.watch)
            self.soon(self.announcement.begin, self.servers_tried, store)
            self.soon(self.journal.keep)
            self.soon(self.background.live)
            self.soon(self.background.watch, lambda: self.config)

    async def open_store(self) -> Store:
        """Open the configured store; see :func:`pml_core.assemble.open_store`."""
        self._services.store = await open_store(self.active, self.supervisor, self.log)
        return self._services.store

    def gather_offers(self) -> None:
        """Ask the loaded plugins what they offer one another, and take who knows keys and who watches access.

        Raises:
            OperatorError: A guard's offers fail, or nobody offers what was chosen.
        """
        guards = self.supervisor.guards

        def fault(plugin: str, hook: str, exc: Exception) -> None:
            (refuse if plugin in guards else self.supervisor.fault)(plugin, hook, exc)

        found = self._gather(offers.HOOK, fault)
        offers.refuse_unless_guards(found, guards, refuse)
        for problem in self.offers.use(found, self.config.gateway.providers, fault):
            self.log.warning(problem)
        self.identities.use(self.offers.find_all(IDENTITIES))
        self.access_watchers.use(self.offers.find_all(ACCESS_WATCHERS))

    def _use_plugins(self) -> None:
        """Take what hook plugins contribute, but for what waits for the chain."""
        if (index := self.offers.find(SEARCH)) is not None:
            self.catalog.use_index(index)
        self.filters.use(self._gather("pml_filter_tools", refuse))
        self.catalog.filter_with(self.filters.refusing, self.filters.hides)
        self.guides = Guides(self.offers.find_all(GUIDES))
        self._introduction = self._introduced()
        self.own_tools.offer([*self._gather("pml_meta_tools"), *self.guides.tools()])
        self.catalog.present(self.offers.find(PRESENTATION), self.offers.find_all(DEFINITIONS))

    def _gather(self, hook: str, on_fault: Fault | None = None) -> list[tuple[str, Any]]:
        return self.assembly.gather(hook, on_fault or self.supervisor.fault)

    def _dispatcher(self, tracing: Tracing) -> Dispatcher:
        settings = self.config.gateway
        full = settings.durability == "full"
        recorder = Recorder(self.journal.executions, self.redactor, settings.record_bytes, self.log, full=full)
        return Dispatcher(
            self.catalog,
            self.own_tools,
            tracing,
            recorder,
            self.log,
            rehearsals=self.rehearsals,
            servers_settled=self.servers_settled,
            read_again=self.server_pool.read_again,
        )

    async def _executors(self) -> Executors:
        known = self.servers, self.own_tools, self.extensions.learn, self.links
        direct = DirectExecutor(*known, begins=self.journal.begins, started=self._connect)
        executors = Executors(direct, self.catalog, self.rehearsals)
        await open_executors(self.active, self.supervisor, executors)
        return executors

    def _chains(self, store: Store, executors: Executors) -> tuple[CallNext, CallNext]:
        resumes = ResumeLimit(store, self.config.gateway.max_resumes, self.log)
        keys = KeyRecheck(lambda: self.identities.found, self.log)
        said = (self.supervisor.closed, self._introduction.finders, self._introduction.users)
        admission = Admission(self.catalog, self.filters, keys, resumes, self.access_watchers, *said)
        wrappers = [NamedWrapper("core", admission), *(NamedWrapper(*one) for one in self._gather(HOOK))]
        self.wrappers, problems = in_order(wrappers)
        for problem in problems:
            self.log.warning(problem)
        direct = [one for one in self.wrappers if getattr(one.wrapper, "direct", True)]
        return fold(self.wrappers, executors.execute, self.log), fold(direct, executors.execute, self.log)

    async def close(self) -> None:
        """Leave everything, in reverse order."""
        if self._changed is not None:
            self._changed.cancel()
        await self.supervisor.close()
        await self.server_pool.stop()  # those that had begun when the store could not be opened
        await self.catalog.close()

    async def serve(self, address: str, *, started: Callable[[str], None] | None = None) -> None:
        """Serve clients at ``address`` until there can be no more of them.

        Args:
            address: ``stdio:`` or ``http://host:port``, say.
            started: Called with the bound address once clients can connect.

        Raises:
            OperatorError: No transport serves such an address.
        """
        from pml_mcp.clients.listener import Ends

        from .plugins.listener import serve

        tell = started or (lambda bound: self.log.debug("listening", address=bound))
        leave = partial(self.readiness.leave, self.config.gateway.shutdown_delay_s)
        ends = Ends(leave, partial(self.background.drain, self.config.gateway.drain_s), self.conversations)
        await serve(address, self.accept, tell, self.assembly, self.supervisor, self.transport, ends)

    def accept(self, link: Link, peer: Peer) -> Handler:
        """Begin a conversation with a client; what it sends goes to the handler returned.

        Raises:
            LookupError: There is no such endpoint.
        """
        from pml_mcp.clients.handler import ClientHandler

        handler = ClientHandler(self._client_parts, link, peer, self.left)
        self.conversations.add(handler.conversation)
        return handler

    @cached_property
    def _client_parts(self) -> ClientParts:
        """Made for the first client."""
        from pml_mcp.clients.conversation import Audience, ToolLists
        from pml_mcp.clients.handler import ClientParts
        from pml_mcp.clients.relay import LogLevels, OtherMethods, Relay
        from pml_mcp.clients.stateless_requests import StatelessRequests
        from pml_mcp.clients.tool_calls import ToolCalls

        settled = partial(self.servers_settled, listing=True)
        sends, intro, info = self.dispatcher, self._introduction, self._introduction.server_info
        lists = ToolLists(self.active, info, self.catalog, self.servers, settled)
        audience = Audience(self.extensions, self.links, self.allows, info.may_know)
        relay = Relay(self.features, self.guides, sends, info, self.log, self.allows, self.status, self.active)
        relay.resource_tools = [one for _, one in self.offers.find_all(RESOURCE_TOOLS)]
        other = OtherMethods(self.extensions, sends, self.access_watchers, self.allows)
        levels = LogLevels(self.servers, self.conversations, self.rehearsals, self.log, info.may_know)
        methods = {**relay.methods, **relay.legacy_methods, "logging/setLevel": levels.set}
        pending, soon, calls = self.pending_input, self.soon, ToolCalls(sends, self.answers)
        stateless = StatelessRequests(calls, self.tasks, pending, relay, other, intro, self.upstream, soon)
        return ClientParts(lists, audience, calls, intro, self.upstream, stateless, methods, other, soon, self.log)

    def _introduced(self) -> Introduction:
        info = ServerInfo(self.servers, self.catalog, self.allows, self.active, self.version)
        own = self.catalog, self.own_tools, self.guides
        calls = self.offers.find(INDIRECT_CALLS)
        return Introduction(info, *own, self.server_pool, self.extensions, self.active, calls)

    def left(self, conversation: Conversation) -> None:
        """A client is gone, and with it what was only for it."""
        self.conversations.discard(conversation)
        for server in self.servers.values():
            if server.has_of_its_own(conversation):
                self.soon(server.client_left, conversation)

    # Servers

    async def _open(self) -> None:
        """Let servers start once the client has its greeting: their starts would take its processor."""
        await self.upstream.hello()
        self.server_pool.open()

    async def servers_tried(self) -> None:
        """Wait, within ``list_wait_s``, for servers whose tools were never seen."""
        await self.server_pool.tried(self.config.gateway.list_wait_s)

    async def servers_settled(self, tool: str | None = None, *, listing: bool = False) -> None:
        """Wait, within ``list_wait_s``, for what is needed: see :meth:`Servers.settled`."""
        await self.server_pool.settled(self.config.gateway.list_wait_s, tool, listing=listing)
        await self.server_pool.settled_for_client(tool)

    # The catalog changes, or what a mode makes of it

    def lists_changed(self) -> None:
        """A plugin says that modes pick something else now."""
        self.exposures.forget()
        self.lists_may_differ()

    def lists_may_differ(self) -> None:
        """Tell clients whose lists do, once for all changes that come together."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_task(self._tell_all(), name="list-changed")

    async def _tell_all(self) -> None:
        told = None
        while told != (now := (self.catalog.changes, self.exposures, self.exposures.forgotten)):
            told = now
            await asyncio.gather(*(c.tools_changed() for c in tuple(self.conversations)))

    # The configuration changes

    def reload(self, read: Callable[[], Config], asked: Mapping[str, str]) -> Reload:
        """Applies changes of the configuration; see :class:`pml_core.reload.Reload`."""
        from .reload import Reload, ReloadParts

        parts = ReloadParts(
            active=self.active,
            announcement=self.announcement,
            access_watchers=self.access_watchers,
            catalog=self.catalog,
            exposures=self._exposures,
            filters=self.filters,
            server_pool=self.server_pool,
            logs=self.logs,
            own_tools=self.own_tools,
            redactor=self.redactor,
            supervisor=self.supervisor,
            lists_may_differ=self.lists_may_differ,
        )
        return Reload(parts, read, asked)
