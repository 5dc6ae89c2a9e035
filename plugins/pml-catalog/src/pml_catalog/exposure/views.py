"""What clients are shown, for plugins that measure or explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, Session

from .lists import Exposure

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_catalog.ports import RehearsalLocks, SessionFilters
    from pml_hookspecs import ExposureMode
    from pml_kit.offers import View

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
        async with AsyncExitStack() as stack:
            driver: Any = self._make_mode(mode, settings or {})
            if hasattr(driver, "__aenter__"):
                await stack.enter_async_context(driver)
            exposure = Exposure(driver, self._catalog, self._filters, self._rehearsals, self._log)
            return await exposure.entries(session)
