"""Everything that is wrong with a configuration, its plugins' tables among it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from pml_kit.errors import OperatorError
from pml_kit.order import near

from .config import Config

FOUND = "found"


class FoundPlugin(Protocol):
    """An installed plugin."""

    name: str

    @property
    def kind(self) -> str:
        """The kind of driver, or ``hooks``."""
        ...

    @property
    def state(self) -> str:
        """``found`` where nothing is wrong with it so far."""
        ...


def problems(config: Config, installed: Sequence[FoundPlugin], types: Mapping[str, type[Any]]) -> list[str]:
    """One or more lines per problem; empty when all fits.

    Args:
        config: One that could be read.
        installed: Every plugin; none has to be loaded.
        types: The settings class of every plugin that loads, by its name.
    """
    found = config.unknown_tables({one.name for one in installed})
    # What does not load has no settings to hold the table to; the doctor says why it does not.
    checked = {one.name for one in installed if one.state == FOUND or one.name in types}
    for name in checked & set(config.tables):
        try:
            config.plugin(name, types.get(name))
        except OperatorError as exc:
            found.append(str(exc))
    return [*found, *_missing_drivers(config, installed)]


def _missing_drivers(config: Config, installed: Iterable[FoundPlugin]) -> list[str]:
    found = []
    for kind, path, name in config.named_drivers():
        names = [one.name for one in installed if one.kind == kind]
        if name not in names:
            where = f"{'.'.join(path)} ({config.origin(path)})"
            found.append(f"{where}: no {kind} named {name!r}; {near(name, names)}")
    return found
