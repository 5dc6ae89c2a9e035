"""What the fixture ``gateway`` gives: a client of a gateway in the test's process."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import replace
from pml_mcp.wire.schemes import scheme_of
from pml_settings.config import ServerSettings

from .downstream import Everything
from .fixtures_recordings import ServerRecording, over
from .gateway import Client, ScriptedServer, ScriptedTransport, configuration, provided

if TYPE_CHECKING:
    from pml_core.plugins.registry import Record
    from pml_hookspecs import Store

SIGNS = (
    ("exposure_mode", ("select",)),
    ("executor", ("execute", "handles")),
    ("transport", ("connect", "serve")),
    ("tracer", ("started", "ended")),
    ("store", ("health", "__aenter__")),
)
"""Members that tell a driver's kind."""
EVERYTHING = "everything"
WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class GatewayClient(Client):
    """A client that has shaken hands with a gateway of its own."""

    def __init__(self, gateway: Gateway, **who: Any) -> None:
        super().__init__(gateway, **who)
        self.gateway = gateway

    async def another(self, **who: Any) -> GatewayClient:
        """One more client of the same gateway; ``who`` as :class:`pml_testing.gateway.Client` takes it."""
        client = GatewayClient(self.gateway, **who)
        if not client.modern:
            await client.initialize()
        return client


def kind_of(plugin: Any) -> str:
    """``hooks``, or the kind of a driver's class or instance.

    Raises:
        TypeError: It is neither.
    """
    if any(hasattr(getattr(plugin, name, None), "pml_impl") for name in dir(plugin) if name.startswith("pml_")):
        return "hooks"
    for kind, members in SIGNS:
        if all(hasattr(plugin, name) for name in members):
            return kind
    raise TypeError(
        f"{plugin!r} is no plugin: neither a module with functions marked @hookimpl, nor a driver's class; "
        "give (kind, name, driver), or the name of an installed plugin"
    )


def _installed(name: str) -> list[Record]:
    """Everything installed under ``name``: a driver, and the hook plugin that comes with it."""
    every = registry.discover()
    if found := [record for record in every if record.name == name]:
        return found
    known = ", ".join(sorted({record.name for record in every})) or "none"
    raise LookupError(f"no plugin {name!r} is installed; installed are: {known}")


def _name_of(plugin: Any, kind: str) -> str:
    """As it is registered where it is installed, else made of what it is called."""
    if isinstance(plugin, ModuleType):
        made = plugin.__name__.rpartition(".")[2]
    else:
        made = WORD.sub("_", (plugin if inspect.isclass(plugin) else type(plugin)).__name__).lower()
    package = getattr(plugin, "__module__", None) or getattr(plugin, "__name__", made)
    for record in registry.discover():
        near = record.target.partition(":")[0].partition(".")[0] == str(package).partition(".")[0]
        if near and record.kind == kind and record.entry_point.load() is plugin:
            return record.name
    return made


def records_of(plugin: Any) -> list[Record]:
    """A plugin as the gateway knows it.

    Args:
        plugin: A driver's class or instance, a module or object with hooks, the name of an installed plugin, or
            ``(kind, name, plugin)``, where ``guards`` is the kind of hooks that are there to forbid.

    Raises:
        TypeError: It is none.
        LookupError: No plugin of that name is installed.
    """
    if isinstance(plugin, str):
        return _installed(plugin)
    kind, name, driver = plugin if isinstance(plugin, tuple) else (kind_of(plugin), None, plugin)
    name = name or _name_of(driver, kind)
    if kind not in {"hooks", "guards"} and not callable(driver):
        return [provided(kind, name, lambda settings, services: driver)]
    return [provided(kind, name, driver)]


class Servers:
    """The servers of a gateway under test: scripted ones, and those at addresses."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """By name: a :class:`ScriptedServer`, names or definitions of tools, an address, or what has an address."""
        self.scripted: dict[str, ScriptedServer] = {}
        self.addresses: dict[str, str] = {}
        self.recorded = {name: one for name, one in given.items() if isinstance(one, ServerRecording) and one.recording}
        for name, one in given.items():
            if isinstance(one, str) or hasattr(one, "address"):
                self.addresses[name] = one if isinstance(one, str) else one.address
            else:
                self.scripted[name] = one if isinstance(one, ScriptedServer) else ScriptedServer(one)

    def transports(self, given: Sequence[Record]) -> list[Record]:
        """Those in ``given``, else the installed ones, that the servers need.

        Raises:
            LookupError: One is not installed.
        """
        have = {record.name: record for record in given if record.group == "pml.transport"}
        for name, address in self.addresses.items():
            scheme = scheme_of(address)
            if scheme not in have:
                try:
                    have[scheme] = next(r for r in _installed(scheme) if r.group == "pml.transport")
                except (LookupError, StopIteration):
                    raise LookupError(
                        f"server {name!r} at {address!r}: no transport {scheme!r} is installed or given in plugins"
                    ) from None
            if name in self.recorded:
                driver = have[scheme].provided or have[scheme].entry_point.load()
                have[scheme] = registry.provide("pml.transport", scheme, over(driver, self.recorded))
        return [*have.values(), registry.provide("pml.transport", "scripted", ScriptedTransport(self.scripted))]


@asynccontextmanager
async def gateway_of(
    plugins: Sequence[Any],
    servers: Mapping[str, Any] | None,
    store: Store,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    who: Mapping[str, Any] | None = None,
    **gateway: Any,
) -> AsyncIterator[GatewayClient]:
    """A client of a started gateway.

    Args:
        plugins: See :func:`records_of`. An exposure mode, a store or tracers among them are the ones in use.
        servers: See :class:`Servers`; None for one named ``files`` with the tools ``read_file`` and ``write_file``.
        store: The one to use when ``plugins`` has none.
        settings: ``[plugins.<name>]`` by name.
        who: Who the client is: ``principal``, ``scopes``, ``intent`` and such of :class:`Client`.
        **gateway: Members of ``[gateway]``.
    """
    there = Servers({"files": ScriptedServer()} if servers is None else servers)
    given = [record for plugin in plugins for record in records_of(plugin)]
    named = {
        kind: [record.name for record in given if record.kind == kind] for kind in ("exposure_mode", "tracer", "store")
    }
    if not named["exposure_mode"]:
        given.append(registry.provide("pml.exposure_mode", EVERYTHING, Everything))
    if not named["store"]:
        given.append(registry.provide("pml.store", "test", lambda settings, services: store))
    chosen = {
        "tools_exposure": [*named["exposure_mode"], EVERYTHING][0],
        "store": [*named["store"], "test"][0],
        "tracers": tuple(named["tracer"]),
        **gateway,
    }
    config = configuration(list(there.scripted), settings, **chosen)
    addresses = {name: ServerSettings(address=address) for name, address in there.addresses.items()}
    config = replace(config, servers={**config.servers, **addresses})
    records = [record for record in given if record.group != "pml.transport"] + there.transports(given)
    async with Gateway(config, records=records) as started:
        await started.servers_tried()
        client = GatewayClient(started, **(who or {}))
        if not client.modern:
            await client.initialize()
        yield client
    for one in there.recorded.values():
        one.write()
