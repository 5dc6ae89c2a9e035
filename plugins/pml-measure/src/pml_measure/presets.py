"""The presets that the user can choose from: those that plugins offer, the user's own, and the project's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """What a preset says about exposure."""

    name: str
    mode: str
    """``""`` when it leaves the mode as it is."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Members of ``[plugins.<name>]``, by name."""


def known() -> list[Preset]:
    """As ``pml config presets`` has them.

    Raises:
        OperatorError: A file of presets cannot be read.
    """
    from pml_clients.configuration import presets

    return [Preset(one.name, one.mode, _tables(one.values)) for one in presets.known(Path.cwd()).values()]


def _tables(values: Mapping[tuple[str, ...], Any]) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for section, table, *keys in (path for path in values if len(path) > 2):  # noqa: PLR2004 - section, table, key
        if section == "plugins":
            tables.setdefault(table, {})[".".join(keys)] = values[section, table, *keys]
    return tables
