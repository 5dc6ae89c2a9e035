"""What clients are shown, for plugins that measure or explain it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, Session, ToolId

from .lists import Exposure

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_catalog.ports import RehearsalLocks, SessionFilters
    from pml_hookspecs import ExposureMode
    from pml_kit.offers import Listing, View

    from .exposures import Exposures


class LiveViews:
    """Implements :class:`pml_kit.offers.Views`."""

    def __init__(
        self,
        exposures: Callable[[], Exposures],
        make_mode: Callable[[str, Mapping[str, Any]], ExposureMode],
        catalog: LiveCatalog,
        filters: SessionFilters,
        rehearsals: RehearsalLocks,
        log: Any,
    ) -> None:
        """``exposures`` gives those in force; ``make_mode`` one that is only tried out, not entered.

        It is given members of the mode's table that take the place of those configured, and raises LookupError where
        none of that name is installed, ValueError where these do not fit.
        """
        self._exposures, self._make_mode = exposures, make_mode
        self._catalog, self._filters, self._rehearsals, self._log = catalog, filters, rehearsals, log

    def endpoints(self) -> Sequence[View]:
        """As configured, the default one first."""
        return self._exposures().endpoints()

    async def listed(
        self, mode: str, *, intent: str = "", settings: Mapping[str, Any] | None = None
    ) -> Sequence[CatalogEntry]:
        """What a local client would be shown by ``mode``, which need not be in use."""
        session = Session(key=f"view of {mode}\n{intent}", intent=intent, mode=mode)
        async with self._exposure(mode, settings or {}) as exposure:
            return await exposure.entries(session)

    async def explained(self, tool: ToolId, view: View) -> Listing:
        """Whether a local client of ``view`` is shown a tool, and why."""
        key = f"view of {view.mode}\n{view.intent}\n{view.endpoint}"
        session = Session(key=key, intent=view.intent, mode=view.mode, endpoint=view.endpoint)
        async with self._exposure(view.mode, {}) as exposure:
            return await exposure.explained(self._entry(tool), session)

    def refusal(self, tool: ToolId, session: Session) -> str:
        """Why a session may not have a tool; ``""`` where it may."""
        return self._filters.why(self._entry(tool), session)

    def _entry(self, tool: ToolId) -> CatalogEntry:
        if (entry := self._catalog.get(tool)) is None:
            raise LookupError(f"there is no tool {tool!r}")
        return entry

    @asynccontextmanager
    async def _exposure(self, mode: str, settings: Mapping[str, Any]) -> AsyncIterator[Exposure]:
        """A mode that is only tried out."""
        driver: Any = self._make_mode(mode, settings)
        async with driver if hasattr(driver, "__aenter__") else nullcontext():
            yield Exposure(driver, self._catalog, self._filters, self._rehearsals, self._log)
