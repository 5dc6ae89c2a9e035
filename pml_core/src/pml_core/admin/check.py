"""``pml config check``: everything that is wrong, and what is legal but doubtful."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pml_core.errors import OperatorError
from pml_core.plugins import local_plugins, registry
from pml_core.plugins.assembly import named_drivers, unknown_tables
from pml_core.settings.config import Config
from pml_kit.order import near


def problems(read: Callable[[], Config], settings_types: Callable[[Config], dict[str, type[Any]]]) -> list[str]:
    """One or more lines per problem; empty when all fits."""
    try:
        config = read()
    except OperatorError as exc:
        return [str(exc)]
    records = local_plugins.found(config)
    found = unknown_tables(config, records)
    types = settings_types(config)
    # What does not load has no settings to hold the table to; the doctor says why it does not.
    checked = {r.name for r in records if r.state is registry.State.FOUND or r.name in types}
    for name in checked & set(config.tables):
        try:
            config.plugin(name, types.get(name))
        except OperatorError as exc:
            found.append(str(exc))
    return [*found, *_missing_drivers(config, records)]


def _missing_drivers(config: Config, records: list[registry.Record]) -> list[str]:
    found = []
    for kind, path, name in named_drivers(config):
        names = [r.name for r in records if r.kind == kind]
        if name not in names:
            where = f"{'.'.join(path)} ({config.says(path) or 'default'})"
            found.append(f"{where}: no {kind} named {name!r}; {near(name, names)}")
    return found
