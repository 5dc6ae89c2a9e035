"""The life of a store on a database. Importing this imports no asyncio: a plugin that is only looked at needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pml_hookspecs import Json, Services

    from .housekeeping import Housekeeping
    from .readers import Readers
    from .writer import Writer


class _NullLog:
    """A log that drops everything, for a store that has no services."""

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_args, **_fields: None


def log_of(services: Services | None) -> Any:
    """Where a store tells its troubles; nowhere without services."""
    return _NullLog() if services is None else services.log


class DatabaseStore:
    """What is entered and left. Its subclass makes the three of them."""

    _writer: Writer[Any]
    _readers: Readers[Any]
    _housekeeping: Housekeeping

    async def __aenter__(self) -> Self:
        await self._writer.start()
        self._readers.start()
        self._housekeeping.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Each of them, also when this is cancelled. Readers before the writer: who closes the last connection may have
        # to tidy up, and readers cannot.
        try:
            await self._housekeeping.stop()
        finally:
            try:
                await self._readers.stop()
            finally:
                await self._writer.stop()

    def _told(self) -> Mapping[str, Json]:
        """For ``health``: rows waiting, dropped and unwritable since the start, current trouble."""
        return {
            "queued": self._writer.queued,
            "drops": self._writer.drops,
            "unwritable": self._writer.unwritable,
            "trouble": self._writer.trouble,
        }
