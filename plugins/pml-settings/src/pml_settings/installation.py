"""What commands are handed that look after an installation: what is installed and configured, made without a gateway.

A command asks for it by ``set_defaults(run_on_installation=function)``, and the core fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from pml_hookspecs import (
        CatalogEntry,
        Endpoint,
        ServerStatus,
        Store,
        Transport,
        Wrapper,
    )
    from pml_kit.offers import AccessEvent

    from .config import Config

Fault: TypeAlias = Callable[[str, str, Exception], None]
"""Is told the plugin, the hook, and what it raised."""
MakeServices: TypeAlias = Callable[[str, Any, Any], Any]
"""Makes the services of one plugin of its name, its settings and a log."""
Statuses: TypeAlias = Callable[[], Sequence["ServerStatus"]]
LOADED, FOUND, BLOCKED = "loaded", "found", "blocked"
"""States of plugins that are well."""
HOOKS = "hooks"
"""The kind of hook plugins."""


class PluginRecord(Protocol):
    """One entry point of one installed distribution, or a file of the user's, and how far it got."""

    name: str
    target: str
    dist: str
    version: str
    requires_api: str
    """Which contract it asks for."""
    problem: str
    """``""`` when there is none."""
    remedy: str
    file: str
    """Where it is when it is a file; ``""`` otherwise."""
    entry_point: metadata.EntryPoint
    deprecated: list[str]
    """One sentence for each deprecated member of the contract that it has; known once it is loaded."""

    guard: bool
    """Whether nothing may run without it."""

    @property
    def label(self) -> str:
        """How messages call it."""
        ...

    @property
    def state(self) -> str:
        """``found``, ``blocked``, ``incompatible``, ``loaded`` or ``failed``."""
        ...

    @property
    def kind(self) -> str:
        """The kind of driver, or ``hooks``."""
        ...

    @property
    def origin(self) -> str:
        """Distribution and version, or the file."""
        ...


class PluginAssembly(Protocol):
    """Turns names in the configuration and installed distributions into objects."""

    @property
    def records(self) -> Sequence[PluginRecord]: ...

    def load_hooks(self, on_fault: Fault, /) -> None:
        """Load every hook plugin. Raises OperatorError where the settings of one do not fit."""
        ...

    def installed(self, kind: str, /) -> Sequence[str]:
        """Names of usable drivers."""
        ...

    def driver(self, kind: str, name: str, /) -> Any:
        """A driver, constructed. Raises OperatorError where that cannot be."""
        ...

    def check_driver(self, kind: str, name: str, driver: Any, state: str, /) -> None:
        """See that a driver is right in another state, as ``open store``. Raises OperatorError."""
        ...

    def gather(self, hook: str, on_fault: Fault, /) -> Sequence[tuple[str, Any]]:
        """What hook plugins contribute through ``hook``, with their names."""
        ...


class OrderedWrapper(Protocol):
    """A wrapper and the plugin that contributed it."""

    @property
    def plugin(self) -> str: ...

    @property
    def wrapper(self) -> Wrapper: ...


class IdleGateway(Protocol):
    """A gateway that serves nobody."""

    @property
    def store(self) -> Store | None: ...

    @property
    def health(self) -> Mapping[str, str]:
        """By plugin: ``up``, or what is wrong."""
        ...

    def statuses(self) -> Sequence[ServerStatus]:
        """How the servers are now."""
        ...

    def tools(self) -> Iterable[CatalogEntry]:
        """All that servers list, allowed or not."""
        ...

    def gather(self, hook: str, /) -> None:
        """Ask plugins for what they contribute through ``hook``; a fault of theirs counts for :attr:`health`."""
        ...

    async def unmatched(self) -> Sequence[str]:
        """One sentence for each name or pattern of tools that fits nothing that is known."""
        ...

    async def report(self, event: AccessEvent, /) -> None:
        """Tell those who watch it of a change that the operator makes."""
        ...


class ServerLogin(Protocol):
    """What logging in to a server takes; the store is open that keeps tokens."""

    @property
    def transport(self) -> Transport: ...

    @property
    def endpoint(self) -> Endpoint: ...

    async def report(self, event: AccessEvent, /) -> None:
        """As :meth:`IdleGateway.report`; plugins are loaded for it."""
        ...


class Installation(Protocol):
    """What is installed and configured here. Nothing is read or imported before it is asked for."""

    @property
    def config(self) -> Config:
        """Read once. Raises :class:`pml_kit.errors.OperatorError` where it cannot be read or does not fit."""
        ...

    def settings_types(self) -> Mapping[str, type[Any]]:
        """The settings class of every plugin that loads, by its name; of those that are blocked, too.

        Where the configuration cannot be read, under one that says nothing.
        """
        ...

    def plugins(self) -> Sequence[tuple[PluginRecord, Any]]:
        """Every plugin that loads and whose settings are of the right shape; drivers as their classes."""
        ...

    def records(self) -> Sequence[PluginRecord]:
        """Every plugin. Imports none of them."""
        ...

    def assembly(self, make_services: MakeServices, /, *, thorough: bool) -> PluginAssembly:
        """A new one. ``thorough`` checks every requirement of every distribution."""
        ...

    def in_order(self, assembly: PluginAssembly, /) -> tuple[Sequence[OrderedWrapper], Sequence[str]]:
        """The wrappers of plugins that are loaded, with the core's own, outermost first; what is wrong with that."""
        ...

    def gateway(
        self, *, connect: bool = False, servers: Collection[str] | None = None, tolerant: bool = False
    ) -> AbstractAsyncContextManager[IdleGateway]:
        """One that is up as long as the block runs.

        Args:
            connect: Start the servers, instead of taking them as they were last time.
            servers: Only these; None for all.
            tolerant: No plugin that fails keeps it from being up, also where the configuration says so.
        """
        ...

    def login(self, server: str, /) -> AbstractAsyncContextManager[ServerLogin]:
        """What logging in takes. Raises OperatorError where there is no such server, or its transport has no logins."""
        ...


def as_json(record: PluginRecord) -> dict[str, str]:
    """A plugin for machines, as ``pml plugins list --json`` tells of it."""
    return {
        "kind": record.kind,
        "name": record.name,
        "state": str(record.state),
        "distribution": record.dist,
        "version": record.version,
        "target": record.target,
        "file": record.file,
        "requires_api": record.requires_api,
        "problem": record.problem,
        "remedy": record.remedy,
    }
