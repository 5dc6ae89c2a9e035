"""Load one named driver: the only module that imports stevedore."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pml_kit.errors import OperatorError

from .registry import Advice, Record, State, cause, required_names


class DriverError(OperatorError):
    """A driver that the configuration names cannot be used."""


def _missing(records: Sequence[Record], kind: str, name: str) -> DriverError:
    from pml_kit.order import near  # it imports the contract, and with it pluggy

    names = sorted(r.name for r in records)
    package = f"pml-{kind.removesuffix('_mode')}-{name.replace('_', '-')}"
    # What an installed distribution asks for exists; what only might, anybody could have registered.
    remedy = f"Install {package}." if package in required_names() else "Install the package that provides it."
    return DriverError(f"no {kind.replace('_', ' ')} driver named {name!r}; {near(name, names)}", remedy)


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
    plugin = record.provided if record.provided is not None else _imported(record)
    if record.state is not State.LOADED:
        record.state = State.LOADED
        record.advise(deprecated(plugin, _contract(group)))
    return plugin


def _imported(record: Record) -> Any:
    """The class that an entry point names.

    Raises:
        DriverError: It cannot be imported.
    """
    from stevedore import DriverManager

    try:
        # `.extensions[0].plugin` and not `.driver`, which tests the truth of the class's instance.
        return DriverManager(record.group, record.name).extensions[0].plugin
    except (Exception, SystemExit) as exc:  # SystemExit: a module that calls sys.exit() on import
        record.fail(State.FAILED, cause(exc), record.mend, exc)
        raise DriverError(f"{record.label} failed to import: {record.problem}", record.remedy) from exc


def _contract(group: str) -> type[Any]:
    # Whoever has a driver has paid for this import.
    import pml_hookspecs as specs

    contracts: Mapping[str, type[Any]] = {
        "pml.exposure_mode": specs.ExposureMode,
        "pml.executor": specs.Executor,
        "pml.transport": specs.Transport,
        "pml.tracer": specs.Tracer,
        "pml.store": specs.Store,
    }
    return contracts[group]


def deprecated(driver: Any, contract: type[Any]) -> Iterator[Advice]:
    """The deprecated members of its contract that a driver has, marked there by ``__deprecated__`` (PEP 702)."""
    for name, member in vars(contract).items():
        advice, mine = getattr(member, "__deprecated__", None), getattr(driver, name, None)
        if advice is not None and mine is not None and mine is not member:
            code = getattr(inspect.unwrap(mine), "__code__", None)
            yield name, advice, *((code.co_filename, code.co_firstlineno) if code else (driver.__module__, 1))
