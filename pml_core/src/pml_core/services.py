"""The object behind :class:`pml_hookspecs.Services`, one per plugin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Store

    from .gateway import Gateway


class PluginServices:
    """What one plugin may use of the gateway."""

    def __init__(self, gateway: Gateway, plugin: str, settings: Any) -> None:
        self._gateway = gateway
        self.plugin, self.settings = plugin, settings
        self.log = gateway.log.bind(plugin=plugin)

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

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a background task while the plugin is up."""
        self._gateway.supervisor.spawn(self.plugin, func, args, name)
