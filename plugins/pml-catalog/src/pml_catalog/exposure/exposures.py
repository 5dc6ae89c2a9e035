"""Which exposure mode and hint each client has, and the lists of all modes in use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExposureMode, Peer, Session
from pml_kit.offers import View

from . import DEFAULT_ENDPOINT, META_ONLY
from .lists import Exposure, MetaOnlyView

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_catalog.ports import Drivers, Lifetimes, RehearsalLocks, SessionFilters

KIND = "exposure_mode"


@dataclass(frozen=True, slots=True)
class ExposureSettings:
    """What one configuration says of what clients are shown."""

    endpoints: Mapping[str, View]
    """Each way in, by its name, :data:`DEFAULT_ENDPOINT` first; their modes need not be installed."""
    tables: Mapping[str, Mapping[str, Any]]
    """Settings of plugins, by name: a mode whose table is another one is made anew."""
    page_size: int = 0
    """Tools on a page of a list; 0 for all on one."""


class Exposures:
    """What one configuration says clients are shown. Another one takes its place as a whole."""

    def __init__(
        self,
        settings: ExposureSettings,
        drivers: Drivers,
        catalog: LiveCatalog,
        filters: SessionFilters,
        lifetimes: Lifetimes,
        rehearsals: RehearsalLocks,
        log: Any,
        before: Exposures | None = None,
    ) -> None:
        """Nothing is loaded before :meth:`open`; modes whose tables are as they were are taken from ``before``."""
        self._settings, self._installed, self._catalog = settings, drivers, catalog
        self._filters, self._lifetimes, self._log = filters, lifetimes, log
        self._rehearsals = rehearsals
        self._before = before
        self._drivers: dict[str, ExposureMode] = {}
        self._modes: dict[str, Exposure] = {}
        self._replaced: list[tuple[ExposureMode, AbstractSet[asyncio.Task[None]]]] = []
        self._unknown: set[str] = set()
        self._opening = asyncio.Lock()
        self._endpoints: dict[str, View] = {}
        self.forgotten = 0
        """How often the modes were asked again so."""

    async def open(self) -> None:
        """Load the modes of all endpoints.

        Raises:
            Exception: One that is installed cannot be used; the message says why.
        """
        for endpoint, view in self._settings.endpoints.items():
            self._endpoints[endpoint] = replace(view, mode=self._known(view.mode))
        before = {} if self._before is None else self._before._drivers  # noqa: SLF001 - one of its own kind
        # Of a mode that is made anew, what the new one begins is not among these.
        earlier = {mode: self._lifetimes.running(mode) for mode in before}
        try:
            for view in self._endpoints.values():
                if view.mode not in self._modes:
                    self._keep(view.mode, await self._driver(view.mode))
        except BaseException:
            for mode, driver in self._drivers.items():
                if before.get(mode) is not driver:
                    await self._lifetimes.leave(driver, self._lifetimes.running(mode) - earlier.get(mode, set()))
            raise
        gone = {mode: driver for mode, driver in before.items() if self._drivers.get(mode) is not driver}
        self._replaced = [(driver, earlier[mode]) for mode, driver in gone.items()]
        self._before = None

    async def leave_replaced(self) -> None:
        """Leave the modes of the configuration before that are not in use any more."""
        for driver, tasks in self._replaced:
            await self._lifetimes.leave(driver, tasks)
        self._replaced = []

    def endpoints(self) -> Sequence[View]:
        """As configured, the default one first."""
        return list(self._endpoints.values())

    def view(self, peer: Peer) -> View:
        """What a client is shown; what its key says counts more than what its endpoint does.

        Raises:
            LookupError: There is no such endpoint.
        """
        of_endpoint = self._endpoints.get(peer.endpoint)
        if of_endpoint is None:
            known = ", ".join(name for name in self._endpoints if name != DEFAULT_ENDPOINT) or "none"
            raise LookupError(f"There is no endpoint {peer.endpoint!r}; configured: {known}.")
        mode = self._known(peer.mode) if peer.mode else of_endpoint.mode
        execution_mode = peer.execution_mode or of_endpoint.execution_mode
        return View(peer.endpoint, mode, peer.intent or of_endpoint.intent, execution_mode)

    def forget(self) -> None:
        """Ask the modes again, although nothing has changed that they are told of."""
        self.forgotten += 1
        for exposure in self._modes.values():
            exposure.forget()

    def lists_servers_alone(self, session: Session) -> bool:
        """Whether a session's mode, which is in use, lists the servers' tools and not the gateway's."""
        return (known := self._modes.get(session.mode)) is not None and not known.lists_meta_tools

    async def of(self, session: Session) -> Exposure:
        """The lists of a session's mode."""
        if (known := self._modes.get(session.mode)) is not None:
            return known
        async with self._opening:
            if (known := self._modes.get(session.mode)) is None:
                known = self._keep(session.mode, await self._driver_or_none(session.mode))
            return known

    def _keep(self, mode: str, driver: ExposureMode) -> Exposure:
        self._drivers[mode] = driver
        size = self._settings.page_size
        self._modes[mode] = Exposure(driver, self._catalog, self._filters, self._rehearsals, self._log, page_size=size)
        return self._modes[mode]

    def _known(self, mode: str) -> str:
        """``mode``, or the one that is used where it is not installed."""
        if mode == META_ONLY or mode in self._installed.installed(KIND):
            return mode
        if mode not in self._unknown:
            self._unknown.add(mode)
            unknown = f"Unknown tools_exposure mode: {mode}, defaulting to {META_ONLY}"
            self._log.warning(unknown, installed=self._installed.installed(KIND))
        return META_ONLY

    async def _driver_or_none(self, mode: str) -> ExposureMode:
        """The driver of a key's mode, which is not looked at before the key is used."""
        try:
            return await self._driver(mode)
        except Exception as exc:
            said = "exposure mode cannot be used; showing the meta-tools only"
            self._log.error(said, mode=mode, problem=str(exc))
            return MetaOnlyView()

    async def _driver(self, mode: str) -> ExposureMode:
        if mode not in self._installed.installed(KIND):
            return MetaOnlyView()
        if (kept := self._driver_before(mode)) is not None:
            return kept
        driver: ExposureMode = self._installed.driver(KIND, mode)
        await self._lifetimes.enter(mode, driver, required=True)
        return driver

    def _driver_before(self, mode: str) -> ExposureMode | None:
        driver = None if self._before is None else self._before._drivers.get(mode)  # noqa: SLF001 - one of its own kind
        if self._before is None or driver is None:
            return None
        tables, earlier = self._settings.tables, self._before._settings.tables  # noqa: SLF001 - as above
        read = (mode, getattr(driver, "settings_fallback", ""))
        return driver if all(tables.get(name) == earlier.get(name) for name in read) else None
