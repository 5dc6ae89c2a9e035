"""What the gateway hands to a plugin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .store import Store
    from .types import Catalog


class Services(Protocol):
    """Everything a plugin may use. One instance per plugin: name, settings and log are already scoped to it.

    Usable from the plugin's constructor on, except where noted.
    """

    @property
    def plugin(self) -> str:
        """The plugin's own name."""
        ...

    @property
    def log(self) -> Any:
        """Structlog logger bound to ``plugin=<name>``; writes to standard error, secrets taken out."""
        ...

    @property
    def settings(self) -> Any:
        """The validated ``[plugins.<name>]`` table, an instance of the plugin's ``settings_type``; None without one."""
        ...

    @property
    def catalog(self) -> Catalog:
        """The live catalog. Empty until the servers are up."""
        ...

    @property
    def store(self) -> Store:
        """The active store. Not available to stores themselves.

        Raises:
            RuntimeError: Asked for before the store is up.
        """
        ...

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a background task while the plugin is up.

        It is cancelled when the plugin goes down. An exception in it is logged and marks the plugin unhealthy; it
        reaches neither the gateway nor other plugins.
        """
        ...
