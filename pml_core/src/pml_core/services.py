"""The object behind :class:`pml_hookspecs.Services`, one per plugin."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pml_hookspecs import RunOptions, encode
from pml_mcp.wire.sessions import peer_of, session_of

if TYPE_CHECKING:
    from pml_background.executions import Background
    from pml_catalog.own_tools import OwnTools
    from pml_hookspecs import (
        Catalog,
        ExecutionId,
        Identity,
        Json,
        Key,
        MetaTool,
        Outcome,
        Peer,
        Session,
        Store,
        Task,
    )
    from pml_kit.offers import View
    from pml_kit.system.redaction import Redactor

    from .kernel.dispatch import Dispatcher
    from .plugins.offers import Offers
    from .plugins.supervisor import Supervisor

T = TypeVar("T")


class Runners(NamedTuple):
    """What runs tasks."""

    dispatcher: Dispatcher
    background: Background


@dataclass(slots=True, kw_only=True)
class ServiceParts:
    """What the services of all plugins are made of; what comes last is set while the gateway starts."""

    log: Any
    catalog: Catalog
    own_tools: OwnTools
    offers: Offers
    redactor: Redactor
    supervisor: Supervisor
    view: Callable[[Peer], View]
    """What a client is shown; raises LookupError for an unknown endpoint."""
    store: Store | None = None
    """None before it is open."""
    lists_changed: Callable[[], None] | None = None
    """None before clients can connect."""
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

    def find(self, key: Key[T]) -> T | None:
        """What is offered under ``key``."""
        return self._parts.offers.find(key)

    def find_all(self, key: Key[T]) -> Sequence[tuple[str, T]]:
        """All that counts of what is offered under ``key``."""
        return self._parts.offers.find_all(key)

    async def run(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> Outcome:
        """Run a task that no client waits for."""
        return await self._runners.dispatcher.start_unattended(task, session, options)

    async def start(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> ExecutionId:
        """Run a task in the background; its id, once it is durably pending."""
        return await self._runners.background.start(task, session, options)

    async def stop(self, id: ExecutionId) -> bool:
        """Cancel what :meth:`start` began; whether it was under way."""
        return await self._runners.background.stop(id)

    @property
    def _runners(self) -> Runners:
        if self._parts.runners is None:
            raise RuntimeError(f"plugin {self.plugin!r} asked for a task to be run before the gateway had started")
        return self._parts.runners

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

    def lists_changed(self) -> None:
        """Have the modes asked again, and clients told whose lists differ."""
        if self._parts.lists_changed is not None:
            self._parts.lists_changed()

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a background task while the plugin is up."""
        self._parts.supervisor.spawn(self.plugin, func, args, name)
