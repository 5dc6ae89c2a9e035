"""``pml config check``: everything that is wrong, and what is legal but doubtful (EXP-35, EXP-36)."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from . import registry
from .assembly import unknown_tables
from .config import Config
from .errors import OperatorError


def problems(read: Callable[[], Config], settings_types: Callable[[], dict[str, type[Any]]]) -> list[str]:
    """One or more lines per problem; empty when all fits."""
    try:
        config = read()
    except OperatorError as exc:
        return [str(exc)]
    records = registry.discover(frozenset(config.gateway.block))
    found = unknown_tables(config, records)
    types = settings_types()
    for name in {r.name for r in records} & set(config.tables):
        try:
            config.plugin(name, types.get(name))
        except OperatorError as exc:
            found.append(str(exc))
    return [*found, *_missing_drivers(config, records)]


def _missing_drivers(config: Config, records: list[registry.Record]) -> list[str]:
    gateway, found = config.gateway, []
    wanted = [("exposure_mode", "tools_exposure", gateway.tools_exposure), ("store", "store", gateway.store)]
    wanted += [("tracer", "tracers", name) for name in gateway.tracers]
    for kind, key, name in wanted:
        names = [r.name for r in records if r.kind == kind]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"installed: {', '.join(names) or 'none'}"
            found.append(
                f"gateway.{key} ({config.says(f'gateway.{key}') or 'default'}): no {kind} named {name!r}; {hint}"
            )
    return found
