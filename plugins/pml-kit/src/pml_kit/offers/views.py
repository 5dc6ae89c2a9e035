"""What clients are shown, for plugins that measure or explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry


@dataclass(frozen=True, slots=True)
class View:
    """What the clients of one endpoint are shown."""

    endpoint: str
    mode: str
    """Name of the exposure mode."""
    intent: str = ""
    execution_mode: Literal["", "real", "dry_run"] = ""
    """What a call does that does not say itself; ``""`` as the gateway is configured."""


class Views(Protocol):
    """The lists that clients get, for plugins that measure or explain them."""

    def endpoints(self) -> Sequence[View]:
        """As configured, ``default`` first."""
        ...

    async def listed(
        self, mode: str, *, intent: str = "", settings: Mapping[str, Any] | None = None
    ) -> Sequence[CatalogEntry]:
        """What a local client would be shown, in order.

        Args:
            mode: Name of an installed exposure mode.
            intent: Hint at what the client does.
            settings: Members of the mode's own table that take the place of those configured, to try them out.

        Raises:
            LookupError: No such mode is installed.
            ValueError: The settings do not fit.
        """
        ...


VIEWS: Key[Views] = Key("views", Views)
"""The gateway's own."""
