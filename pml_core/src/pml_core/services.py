"""The object behind :class:`pml_hookspecs.Services`, one per plugin."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import encode

from .kernel.identities import by_operator, peer_of, session_of
from .mcp.client import current_client

if TYPE_CHECKING:
    from pml_hookspecs import (
        AccessEvent,
        Catalog,
        CatalogEntry,
        DryRun,
        Embedder,
        ExecutionId,
        Identity,
        Journal,
        Json,
        MetaTool,
        Outcome,
        Peer,
        Run,
        Scope,
        Session,
        Store,
        Suggester,
        Suggestion,
        Task,
        Trigger,
        Verdict,
        View,
        Views,
    )

    from .background.executions import Background
    from .kernel.dispatch import Dispatcher
    from .kernel.execution_run import RunOptions
    from .kernel.foresight import Foresight
    from .kernel.identities import AccessWatchers, KnownIdentities
    from .kernel.own_tools import OwnTools
    from .plugins.supervisor import Supervisor
    from .settings.redaction import Redactor


class Runners(NamedTuple):
    """What runs and checks tasks."""

    dispatcher: Dispatcher
    background: Background
    foresight: Foresight


@dataclass(slots=True, kw_only=True)
class ServiceParts:
    """What the services of all plugins are made of; what comes last is set while the gateway starts."""

    log: Any
    catalog: Catalog
    own_tools: OwnTools
    identities: KnownIdentities
    access_watchers: AccessWatchers
    redactor: Redactor
    supervisor: Supervisor
    view: Callable[[Peer], View]
    """What a client is shown; raises LookupError for an unknown endpoint."""
    views: Views
    store: Store | None = None
    """None before it is open."""
    embedder: Embedder | None = None
    """None where no plugin has one."""
    suggesters: Sequence[tuple[str, Suggester]] = ()
    """Each with its plugin."""
    runners: Runners | None = None
    """None before there is a chain."""


class PluginServices:
    """What one plugin may use of the gateway."""

    def __init__(self, parts: ServiceParts, plugin: str, settings: Any) -> None:
        self._parts = parts
        self.plugin, self.settings = plugin, settings
        self.log: Any = parts.log.bind(plugin=plugin)

    @property
    def catalog(self) -> Catalog:
        """The live catalog."""
        return self._parts.catalog

    @property
    def store(self) -> Store:
        """The active store."""
        if self._parts.store is None:
            raise RuntimeError(f"plugin {self.plugin!r} asked for the store before it was up")
        return self._parts.store

    @property
    def views(self) -> Views:
        """What clients are shown."""
        return self._parts.views

    @property
    def embedder(self) -> Embedder | None:
        """The model that embeds texts, if a plugin brings one."""
        return self._parts.embedder

    async def suggest(self, intent: str, run: Run, *, limit: int = 3) -> Sequence[Suggestion]:
        """Plans for ``intent``, best first."""
        found: list[Suggestion] = []
        for plugin, suggester in self._parts.suggesters:
            try:
                found += await suggester.suggest(intent, run, limit=limit)
            except Exception:
                self._parts.log.exception("planning failed", plugin=plugin)
        return sorted(found, key=lambda suggestion: -suggestion.confidence)[:limit]

    async def run(  # noqa: PLR0913 - each is one thing that executions differ in
        self,
        task: Task,
        session: Session,
        *,
        id: ExecutionId | None = None,
        intent: str = "",
        dry_run: DryRun | None = None,
        trigger: Trigger = "agent",
        agent: str = "",
        schedule: str = "",
        journal: Journal | None = None,
    ) -> Outcome:
        """Run a task that no client waits for."""
        dispatcher, token = self._runners.dispatcher, current_client.set(None)
        try:
            return await dispatcher.start(
                task,
                session,
                id=id,
                intent=intent,
                dry_run=dry_run,
                trigger=trigger,
                agent=agent,
                schedule=schedule,
                journal=journal,
            )
        finally:
            current_client.reset(token)

    async def start(
        self,
        task: Task,
        session: Session,
        *,
        id: ExecutionId | None = None,
        intent: str = "",
        dry_run: DryRun | None = None,
        trigger: Trigger = "agent",
        agent: str = "",
        schedule: str = "",
    ) -> ExecutionId:
        """Run a task in the background; its id, once it is durably pending."""
        asked: RunOptions = {
            "id": id,
            "intent": intent,
            "dry_run": dry_run,
            "trigger": trigger,
            "agent": agent,
            "schedule": schedule,
        }
        background, token = self._runners.background, current_client.set(None)
        try:
            return await background.start(task, session, asked)
        finally:
            current_client.reset(token)

    async def stop(self, id: ExecutionId) -> bool:
        """Cancel what :meth:`start` began; whether it was under way."""
        return await self._runners.background.stop(id)

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """What can be told of a task without running it."""
        return await self._runners.foresight.check(task, session, within_s)

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls of the tool are refused here when their arguments do not fit."""
        return self._runners.foresight.judges(entry)

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """Why humans would have to look before a task runs."""
        return await self._runners.foresight.would_ask(task, above)

    @property
    def _runners(self) -> Runners:
        if self._parts.runners is None:
            raise RuntimeError(f"plugin {self.plugin!r} asked for a task to be run before the gateway had started")
        return self._parts.runners

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key it is; None when no plugin knows it."""
        return await self._parts.identities.identify(token)

    async def report_access(self, event: AccessEvent) -> None:
        """Tell those who watch it that somebody was refused, told of executions, or changed something."""
        await self._parts.access_watchers.tell(by_operator(event))

    async def scope(self, session: Session, *, results: bool = False) -> Scope:
        """Whose executions ``session`` may see."""
        return await self._parts.identities.scope(session, results=results)

    def session(self, identity: Identity, *, endpoint: str = "default", client: str = "") -> Session:
        """The session of a caller that is no MCP client."""
        peer = peer_of(identity, endpoint, self.plugin)
        return session_of(peer, self._parts.view(peer), client=client)

    def redact(self, value: Json) -> Json:
        """``value`` without secrets."""
        cleaned: Json = json.loads(self._parts.redactor.raw(encode(value)))
        return cleaned

    def publish(self, server: str, tools: Sequence[MetaTool]) -> None:
        """Make ``tools`` all that ``server`` has."""
        self._parts.own_tools.publish(self.plugin, server, tools)

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a background task while the plugin is up."""
        self._parts.supervisor.spawn(self.plugin, func, args, name)
