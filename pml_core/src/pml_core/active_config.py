"""The configuration in force, and what was made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pml_catalog.exposure import META_ONLY
from pml_catalog.exposure.exposures import Exposures
from pml_catalog.exposure.lists import MetaOnlyView
from pml_clients.configuration.files import Source
from pml_kit.errors import OperatorError
from pml_kit.offers import View
from pml_kit.system.logs import Silence

if TYPE_CHECKING:
    from pml_hookspecs import ExposureMode, Peer
    from pml_settings.config import Config

    from .plugins.assembly import Assembly, MakeServices


@dataclass(slots=True)
class ActiveConfig:
    """Whoever changes it changes all of it, in one step."""

    config: Config
    assembly: Assembly
    """The plugins, with their settings from this configuration."""
    exposures: Exposures
    """Knows no endpoint before it was opened."""

    def view(self, peer: Peer) -> View:
        """What a client is shown; see :meth:`pml_catalog.exposure.exposures.Exposures.view`."""
        return self.exposures.view(peer)

    def tried_mode(self, mode: str, settings: Mapping[str, Any], make_services: MakeServices) -> ExposureMode:
        """An exposure mode with ``settings`` in the place of those configured; what it logs is not true, and not told.

        Raises:
            LookupError: None of that name is installed.
            ValueError: The settings do not fit.
        """
        installed = self.assembly.installed("exposure_mode")
        if mode == META_ONLY and mode not in installed:
            return MetaOnlyView()
        if mode not in installed:
            raise LookupError(f"no exposure mode {mode!r} is installed; there are: {', '.join(installed)}")

        def silent(plugin: str, settings: Any) -> Any:
            made = make_services(plugin, settings)
            made.log = Silence()
            return made

        tables = {**self.config.tables, mode: {**self.config.tables.get(mode, {}), **settings}}
        sources = (Source("tried out", {"plugins": {mode: settings}}), *self.config.sources)
        config = replace(self.config, tables=tables, sources=sources)
        try:
            driver: ExposureMode = self.assembly.under(config, silent).driver("exposure_mode", mode)
        except OperatorError as exc:
            raise ValueError(str(exc)) from exc
        return driver
