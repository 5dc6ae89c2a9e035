"""The object behind :class:`pml_hookspecs.Services`, one per plugin."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode

from .client import current_client
from .identities import by_operator, peer_of, session_of

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
        Run,
        Scope,
        Session,
        Store,
        Suggestion,
        Task,
        Trigger,
        Verdict,
        Views,
    )

    from .dispatch import Dispatcher
    from .execution_run import RunOptions
    from .gateway import Gateway


class PluginServices:
    """What one plugin may use of the gateway."""

    def __init__(self, gateway: Gateway, plugin: str, settings: Any) -> None:
        self._gateway = gateway
        self.plugin, self.settings = plugin, settings
        self.log: Any = gateway.log.bind(plugin=plugin)

    @property
    def catalog(self) -> Catalog:
        """The live catalog."""
        return self._gateway.catalog

    @property
    def store(self) -> Store:
        """The active store."""
        if self._gateway.store is None:
            raise RuntimeError(f"plugin {self.plugin!r} asked for the store before it was up")
        return self._gateway.store

    @property
    def views(self) -> Views:
        """What clients are shown."""
        return self._gateway.views

    @property
    def embedder(self) -> Embedder | None:
        """The model that embeds texts, if a plugin brings one."""
        return self._gateway.embedder

    async def suggest(self, intent: str, run: Run, *, limit: int = 3) -> Sequence[Suggestion]:
        """Plans for ``intent``, best first."""
        found: list[Suggestion] = []
        for plugin, suggester in self._gateway.suggesters:
            try:
                found += await suggester.suggest(intent, run, limit=limit)
            except Exception:
                self._gateway.log.exception("planning failed", plugin=plugin)
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
        dispatcher, token = self._dispatcher(), current_client.set(None)
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
        dispatcher, token = self._dispatcher(), current_client.set(None)
        try:
            return await dispatcher.in_background(task, session, asked)
        finally:
            current_client.reset(token)

    async def stop(self, id: ExecutionId) -> bool:
        """Cancel what :meth:`start` began; whether it was under way."""
        return await self._gateway.background.stop(id)

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """What can be told of a task without running it."""
        self._dispatcher()
        return await self._gateway.foresight.check(task, session, within_s)

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls of the tool are refused here when their arguments do not fit."""
        self._dispatcher()
        return self._gateway.foresight.judges(entry)

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """Why humans would have to look before a task runs."""
        self._dispatcher()
        return await self._gateway.foresight.would_ask(task, above)

    def _dispatcher(self) -> Dispatcher:
        if not hasattr(self._gateway, "dispatcher"):
            raise RuntimeError(f"plugin {self.plugin!r} asked for a task to be run before the gateway had started")
        return self._gateway.dispatcher

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key it is; None when no plugin knows it."""
        return await self._gateway.identities.identify(token)

    async def report_access(self, event: AccessEvent) -> None:
        """Tell those who watch it that somebody was refused, told of executions, or changed something."""
        await self._gateway.access_watchers.tell(by_operator(event))

    async def scope(self, session: Session, *, results: bool = False) -> Scope:
        """Whose executions ``session`` may see."""
        return await self._gateway.identities.scope(session, results=results)

    def session(self, identity: Identity, *, endpoint: str = "default", client: str = "") -> Session:
        """The session of a caller that is no MCP client."""
        peer = peer_of(identity, endpoint, self.plugin)
        return session_of(peer, self._gateway.exposures.view(peer), client=client)

    def redact(self, value: Json) -> Json:
        """``value`` without secrets."""
        cleaned: Json = json.loads(self._gateway.redactor.raw(encode(value)))
        return cleaned

    def publish(self, server: str, tools: Sequence[MetaTool]) -> None:
        """Make ``tools`` all that ``server`` has."""
        self._gateway.own_tools.publish(self.plugin, server, tools)

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a background task while the plugin is up."""
        self._gateway.supervisor.spawn(self.plugin, func, args, name)
