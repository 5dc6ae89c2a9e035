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
    wanted: list[tuple[str, tuple[str, ...], str]]
    wanted = [("exposure_mode", ("gateway", "tools_exposure"), gateway.tools_exposure)]
    wanted += [
        ("exposure_mode", ("endpoints", n, "tools_exposure"), e.tools_exposure) for n, e in config.endpoints.items()
    ]
    wanted += [("store", ("gateway", "store"), gateway.store)]
    wanted += [("tracer", ("gateway", "tracers"), name) for name in gateway.tracers]
    for kind, path, name in wanted:
        names = [r.name for r in records if r.kind == kind]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"installed: {', '.join(names) or 'none'}"
            found.append(f"{'.'.join(path)} ({config.says(path) or 'default'}): no {kind} named {name!r}; {hint}")
    return found
