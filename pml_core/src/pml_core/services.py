"""The object behind :class:`pml_hookspecs.Services`, one per plugin."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode

from .client import current_client

if TYPE_CHECKING:
    from pml_hookspecs import (
        Catalog,
        DryRun,
        Embedder,
        ExecutionId,
        Journal,
        Json,
        MetaTool,
        Outcome,
        Run,
        Session,
        Store,
        Suggestion,
        Task,
        Trigger,
        Views,
    )

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

    async def run(
        self,
        task: Task,
        session: Session,
        *,
        id: ExecutionId | None = None,
        intent: str = "",
        dry_run: DryRun | None = None,
        trigger: Trigger = "agent",
        agent: str = "",
        journal: Journal | None = None,
    ) -> Outcome:
        """Run a task that no client waits for."""
        if not hasattr(self._gateway, "dispatcher"):
            raise RuntimeError(f"plugin {self.plugin!r} asked for a task to be run before the gateway had started")
        token = current_client.set(None)
        try:
            return await self._gateway.dispatcher.start(
                task, session, id=id, intent=intent, dry_run=dry_run, trigger=trigger, agent=agent, journal=journal
            )
        finally:
            current_client.reset(token)

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
