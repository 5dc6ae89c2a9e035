"""What clients are shown, for plugins that measure or explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, Session, View

from .errors import OperatorError
from .exposure.exposures import META_ONLY
from .exposure.lists import Exposure, MetaOnlyView
from .settings.config_files import Source

if TYPE_CHECKING:
    from pml_hookspecs import ExposureMode

    from .catalog.live import LiveCatalog
    from .exposure.exposures import ActiveConfig
    from .kernel.admission import Filters
    from .kernel.rehearsals import Rehearsals
    from .services import PluginServices


class Silence:
    """A logger that keeps quiet."""

    def bind(self, **_fields: Any) -> Silence:
        """Itself."""
        return self

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_event, **_fields: None


class LiveViews:
    """Implements :class:`pml_hookspecs.Views`."""

    def __init__(
        self,
        active: ActiveConfig,
        catalog: LiveCatalog,
        filters: Filters,
        rehearsals: Rehearsals,
        log: Any,
        make_services: Callable[[str, Any], PluginServices],
    ) -> None:
        """``make_services`` makes those of one plugin from its name and settings."""
        self._active, self._catalog, self._filters = active, catalog, filters
        self._rehearsals, self._log, self._make_services = rehearsals, log, make_services

    def endpoints(self) -> Sequence[View]:
        """As configured, the default one first."""
        return self._active.exposures.endpoints()

    async def listed(
        self, mode: str, *, intent: str = "", settings: Mapping[str, Any] | None = None
    ) -> Sequence[CatalogEntry]:
        """What a local client would be shown by ``mode``, which need not be in use."""
        session = Session(key=f"view of {mode}\n{intent}", intent=intent, mode=mode)
        async with AsyncExitStack() as stack:
            driver: Any = self._driver(mode, settings or {})
            if hasattr(driver, "__aenter__"):
                await stack.enter_async_context(driver)
            exposure = Exposure(driver, self._catalog, self._filters, self._rehearsals, self._log)
            return await exposure.entries(session)

    def _services(self, plugin: str, settings: Any) -> PluginServices:
        """Those of a mode that is only tried out: what it has to say of being in use is not true."""
        made = self._make_services(plugin, settings)
        made.log = Silence()
        return made

    def _driver(self, mode: str, settings: Mapping[str, Any]) -> ExposureMode:
        active, config = self._active, self._active.config
        installed = active.assembly.installed("exposure_mode")
        if mode == META_ONLY and mode not in installed:
            return MetaOnlyView()
        if mode not in installed:
            raise LookupError(f"no exposure mode {mode!r} is installed; there are: {', '.join(installed)}")
        tables = config.tables
        tried = Source("tried out", {"plugins": {mode: settings}})
        config = replace(
            config,
            tables={**tables, mode: {**tables.get(mode, {}), **settings}},
            sources=(tried, *config.sources),
        )
        try:
            driver: ExposureMode = active.assembly.under(config, self._services).driver("exposure_mode", mode)
        except OperatorError as exc:
            raise ValueError(str(exc)) from exc
        return driver
