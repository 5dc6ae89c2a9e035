"""Plugins as commands look at them: loaded, without a gateway."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_core.plugins.registry import Record
    from pml_settings.config import Config


def loaded_plugins(config: Config) -> list[tuple[Record, Any]]:
    """Every plugin that loads and whose settings are of the right shape; drivers as their classes."""
    from pml_core.plugins.local_plugins import found as plugins
    from pml_core.plugins.registry import State
    from pml_kit.shapes import settings_problem

    loaded: list[tuple[Record, Any]] = []
    for record in plugins(replace(config, gateway=replace(config.gateway, block=()))):
        blocked = record.file and {record.name, record.dist} & set(config.gateway.block)
        if record.state is State.FOUND and not blocked:
            try:
                plugin = record.entry_point.load()
                problem = settings_problem(plugin)
            except (Exception, SystemExit):  # noqa: S112 - the doctor reports it
                continue
            if not problem:
                loaded.append((record, plugin))
    return loaded
