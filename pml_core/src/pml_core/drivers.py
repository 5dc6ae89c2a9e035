"""Load one named driver: the only module that imports stevedore."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from .errors import OperatorError
from .registry import Record, State

TRANSPORTS = ("http", "stdio")
"""PML's own."""


class DriverError(OperatorError):
    """A driver that the configuration names cannot be used."""


def _missing(records: Sequence[Record], kind: str, name: str) -> DriverError:
    names = sorted(r.name for r in records)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"installed: {', '.join(names) or 'none'}"
    ours = kind == "transport" and name in TRANSPORTS
    remedy = f"Install pml-transport-{name}." if ours else "Install the package that provides it."
    return DriverError(f"no {kind.replace('_', ' ')} driver named {name!r}; {hint}", remedy)


def load(records: Sequence[Record], group: str, name: str) -> Any:
    """Import the driver class registered as ``name`` in ``group``.

    Raises:
        DriverError: Unknown, incompatible, blocked, or broken; names the distribution, the cause and the remedy.
    """
    mine = [r for r in records if r.group == group]
    record = next((r for r in mine if r.name == name), None)
    if record is None:
        raise _missing(mine, group.removeprefix("pml."), name)
    if record.state in (State.INCOMPATIBLE, State.BLOCKED):
        raise DriverError(f"{record.label}: {record.problem}", record.remedy)
    if record.provided is not None:
        record.state = State.LOADED
        return record.provided
    from stevedore import DriverManager

    try:
        # `.extensions[0].plugin` and not `.driver`, which tests the truth of the class's instance.
        plugin: Any = DriverManager(group, name).extensions[0].plugin
    except (Exception, SystemExit) as exc:  # SystemExit: a module that calls sys.exit() on import
        record.fail(State.FAILED, f"{type(exc).__name__}: {exc}", f"Reinstall or remove {record.dist}.", exc)
        raise DriverError(f"{record.label} failed to import: {type(exc).__name__}: {exc}", record.remedy) from exc
    record.state = State.LOADED
    return plugin
