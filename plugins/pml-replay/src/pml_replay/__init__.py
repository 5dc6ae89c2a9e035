"""PML transport ``replay``: a recorded session in place of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_hookspecs import Transport

from .settings import Settings

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pml_hookspecs import Endpoint, Handler, Link, Services

__all__ = ["Replay", "Settings"]


class Replay(Transport):
    """Servers at addresses such as ``replay:session.jsonl``: they answer what is recorded there, and nothing else."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Keep what is given; no I/O."""
        self._settings = settings or Settings()
        self._log: Any = None if services is None else services.log

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """Read the file, as :class:`pml_hookspecs.Transport` says.

        ``endpoint.options`` may hold ``server``: which of the recorded servers this is. Without it, the one of the same
        name, or the only one.

        Raises:
            ValueError: At once, when the address or the options are not understood.
            TransportError: On entry, when the file cannot be used; the message says why.
        """
        from .link import connected, place_of

        return connected(endpoint, place_of(endpoint), self._settings, self._log)
