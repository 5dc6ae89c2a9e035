"""The plugins put together without a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_catalog.live import LiveCatalog

if TYPE_CHECKING:
    from pml_hookspecs import Key, Store
    from pml_settings.installation import Installation, OrderedWrapper, PluginAssembly


@dataclass(slots=True)
class OpenStore:
    """The configured store, as long as it is open."""

    store: Store | None = None


class OfflineServices:
    """Services for a gateway that does not run: settings and log, an empty catalog, no background tasks.

    The store is there for what the doctor awaits.
    """

    def __init__(self, open_store: OpenStore, plugin: str, settings: Any, log: Any) -> None:
        self.plugin, self.settings, self.log = plugin, settings, log.bind(plugin=plugin)
        self.catalog = LiveCatalog(log)
        self._open_store = open_store

    @property
    def store(self) -> Store:
        """While it is open.

        Raises:
            RuntimeError: It is not.
        """
        if self._open_store.store is None:
            raise RuntimeError("the gateway is not running, so there is no store")
        return self._open_store.store

    def find(self, key: Key[Any]) -> None:
        """Nothing: plugins are not put together here."""

    def find_all(self, key: Key[Any]) -> Sequence[tuple[str, Any]]:
        """As :meth:`find`."""
        return ()

    def __getattr__(self, name: str) -> Any:
        """Whatever else a gateway does for its plugins."""
        raise RuntimeError(f"the gateway is not running, so there is no {name}")

    def spawn(self, func: Any, *args: Any, name: str) -> None:
        """Nothing runs in the background of a check."""


def assembly_of(installation: Installation, open_store: OpenStore, *, thorough: bool) -> PluginAssembly:
    """The plugins, not loaded yet."""
    return installation.assembly(partial(OfflineServices, open_store), thorough=thorough)


def chain_of(
    installation: Installation,
) -> tuple[Sequence[OrderedWrapper], Sequence[tuple[str, Any]], Sequence[str]]:
    """The wrappers as a gateway with this configuration would fold them, the filters that the core asks in its own.

    With them, what is wrong with the order of the wrappers.
    """
    assembly = assembly_of(installation, OpenStore(), thorough=False)
    assembly.load_hooks(lambda *_fault: None)
    wrappers, problems = installation.in_order(assembly)
    return wrappers, assembly.gather("pml_filter_tools", lambda *_fault: None), problems
