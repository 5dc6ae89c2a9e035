"""What is installed and configured here, for commands of plugins that look after it."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pml_clients.configuration.view import no_server
from pml_hookspecs import replace
from pml_kit.errors import OperatorError
from pml_settings.command_files import load_from_options, settings_types

from .loaded_plugins import loaded_plugins

if TYPE_CHECKING:
    from pml_core.gateway import Gateway
    from pml_core.kernel.chain import NamedWrapper
    from pml_core.plugins.assembly import Assembly
    from pml_core.plugins.registry import Record
    from pml_hookspecs import CatalogEntry, Endpoint, ServerStatus, Store, Transport
    from pml_kit.offers import AccessEvent
    from pml_settings.config import Config
    from pml_settings.installation import MakeServices, PluginAssembly


class ConfiguredInstallation:
    """Implements :class:`pml_settings.installation.Installation`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """``arguments`` are those of :func:`pml_kit.command_line.commands.add_sources`."""
        self._arguments = arguments

    @cached_property
    def config(self) -> Config:
        """As the options say."""
        return load_from_options(self._arguments)

    def settings_types(self) -> Mapping[str, type[Any]]:
        """By plugin; whoever has mistakes in the configuration needs them most."""
        from pml_settings.config import Config, GatewaySettings

        try:
            config = self.config
        except OperatorError:
            config = Config(GatewaySettings(), {}, {}, ())
        return settings_types(loaded_plugins(config))

    def plugins(self) -> Sequence[tuple[Record, Any]]:
        """Loaded."""
        return loaded_plugins(self.config)

    def records(self) -> Sequence[Record]:
        """Every plugin."""
        from pml_core.plugins import local_plugins

        return local_plugins.found(self.config, thorough=True)

    def assembly(self, make_services: MakeServices, *, thorough: bool) -> Assembly:
        """The plugins, not loaded yet."""
        from pml_core.plugins import local_plugins
        from pml_core.plugins.assembly import Assembly
        from pml_kit.system.logs import Logs

        log = Logs("error").get()
        records = local_plugins.found(self.config, thorough=thorough)
        return Assembly(self.config, records, lambda name, settings: make_services(name, settings, log), log)

    def in_order(self, assembly: PluginAssembly) -> tuple[Sequence[NamedWrapper], Sequence[str]]:
        """The wrappers as a gateway would fold them."""
        from pml_catalog.exposure.tool_rules import Filters
        from pml_catalog.live import LiveCatalog
        from pml_core.kernel.admission import Admission
        from pml_core.kernel.chain import HOOK, NamedWrapper
        from pml_kit.order import in_order
        from pml_kit.system.logs import Logs

        log = Logs("error").get()
        core = NamedWrapper("core", Admission(LiveCatalog(log), Filters((), log)))
        return in_order([core, *(NamedWrapper(*one) for one in assembly.gather(HOOK, lambda *_fault: None))])

    @asynccontextmanager
    async def gateway(
        self, *, connect: bool = False, servers: Collection[str] | None = None, tolerant: bool = False
    ) -> AsyncIterator[UnservedGateway]:
        """One with these servers."""
        from pml_core.gateway import Gateway
        from pml_kit.system.logs import Logs

        config = self.config
        chosen = {name: one for name, one in config.servers.items() if servers is None or name in servers}
        strict = config.gateway.strict and not tolerant
        tried = replace(config, servers=chosen, gateway=replace(config.gateway, strict=strict))
        async with Gateway(tried, Logs("error", config.gateway.log_format), connect=connect) as gateway:
            yield UnservedGateway(gateway)

    @asynccontextmanager
    async def login(self, server: str) -> AsyncIterator[OpenLogin]:
        """What reaches a server, with the store open."""
        from pml_core.gateway import Gateway
        from pml_hookspecs import TransportError
        from pml_mcp.wire.schemes import scheme_of
        from pml_settings.endpoints import found_endpoint

        config = self.config
        if server not in config.servers:
            raise no_server(server, config.servers)
        gateway = Gateway(config)
        try:
            endpoint = await found_endpoint(server, config.servers[server], gateway.redactor.learn)
            await gateway.open_store()
            transport = gateway.transport(scheme := scheme_of(endpoint.address))
            gateway.assembly.check_driver("transport", scheme, transport, "login")
            yield OpenLogin(transport, endpoint, gateway)
        except NotImplementedError as exc:
            raise OperatorError(f"server {server!r} needs no login: {exc}") from exc
        except (TransportError, ValueError) as exc:
            raise OperatorError(f"server {server!r}: {exc}") from exc
        finally:
            await gateway.close()


class UnservedGateway:
    """Implements :class:`pml_settings.installation.IdleGateway`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def store(self) -> Store | None:
        """Open."""
        return self._gateway.store

    @property
    def health(self) -> Mapping[str, str]:
        """Of plugins."""
        return self._gateway.supervisor.health

    def statuses(self) -> Sequence[ServerStatus]:
        """Of servers."""
        return self._gateway.catalog.servers()

    def tools(self) -> Iterable[CatalogEntry]:
        """Of all of them."""
        return iter(self._gateway.catalog)

    def gather(self, hook: str) -> None:
        """What is given is not used."""
        self._gateway.assembly.gather(hook, self._gateway.supervisor.fault)

    async def unmatched(self) -> Sequence[str]:
        """Names and patterns of tools."""
        return await self._gateway.announcement.unmatched(whole=False)

    async def report(self, event: AccessEvent) -> None:
        """Tell those who watch."""
        from pml_core.kernel.identities import by_operator

        await self._gateway.access_watchers.tell(by_operator(event))


@dataclass(frozen=True, slots=True)
class OpenLogin:
    """Implements :class:`pml_settings.installation.ServerLogin`."""

    transport: Transport
    endpoint: Endpoint
    gateway: Gateway

    async def report(self, event: AccessEvent) -> None:
        """Tell those who watch."""
        gateway = self.gateway
        gateway.assembly.load_hooks(gateway.supervisor.fault)
        gateway.gather_offers()
        await UnservedGateway(gateway).report(event)
