"""``pml config check``: what is legal but doubtful."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pml_kit.offers.tool_names import is_said
from pml_settings.warnings import config_warnings

if TYPE_CHECKING:
    from pml_settings.installation import Installation


async def warnings(installation: Installation) -> list[str]:
    """What is legal but hardly meant, of a configuration without problems; a sentence each."""
    config, types = installation.config, installation.settings_types()
    found = [*config.refused]
    found += [line for name in config.tables if name in types for line in config.dropped(name, types[name])]
    found += config_warnings(config, installation.plugins(), [*config.exposure_settings().endpoints.values()])
    names = await _unmatched(installation)
    return [*found, *(line for line in names if not is_said(line, found))]


async def _unmatched(installation: Installation) -> list[str]:
    """Names and patterns of tools that fit nothing that is known; none where nothing can be put together."""
    with suppress(Exception):  # what is wrong is said by others
        async with installation.gateway(tolerant=True) as gateway:
            return [*await gateway.unmatched()]
    return []
