"""The configuration as commands are told of it, and as files, for those that change them: no gateway is made."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients.configuration.view import Configuration
from pml_kit.errors import OperatorError

from .config import Config, load, normalise

if TYPE_CHECKING:
    from .installation import PluginRecord

_told: set[str] = set()


def load_from_options(arguments: argparse.Namespace) -> Config:
    """The configuration that a command's own options ask for; files that do not count are named once.

    Raises:
        OperatorError: It cannot be read or does not fit.
    """
    config = load(arguments.config, overrides=arguments.overrides, mode=arguments.mode)
    for line in config.ignored.values():
        if line not in _told:
            print(f"pml: {line}", file=sys.stderr)  # noqa: T201 - a command tells its user
            _told.add(line)
    return config


class Files:
    """The files that count where a command was started."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        installed: Callable[[Config], Sequence[PluginRecord]],
        loaded: Callable[[Config], Sequence[tuple[PluginRecord, Any]]],
    ) -> None:
        """Of one command.

        Args:
            arguments: The command's; those of ``pml_kit.command_line.commands.add_sources`` say where.
            installed: Gives every plugin under a configuration.
            loaded: Gives those that load, drivers as their classes.
        """
        self._arguments, self._installed, self._loaded = arguments, installed, loaded

    @property
    def given(self) -> Path | None:
        return None if self._arguments.config is None else Path(self._arguments.config)

    def load(self, config: Path | None = None) -> Configuration:
        """See :class:`~pml_clients.configuration.view.ConfigurationFiles`, here and below."""
        return _view(load(config))

    def from_options(self) -> Configuration:
        return _view(load_from_options(self._arguments))

    def problems(self, config: Path, without: Path | None = None) -> list[str]:
        from .problems import problems

        try:
            read = load(config, without=without)
        except OperatorError as exc:
            return [str(exc)]
        return problems(read, self._installed(read), settings_types(self._loaded(read)))

    def normalise(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        return normalise(tree)

    def doubts(self, mode: str) -> list[str]:
        from .warnings import warnings_of_mode

        config = load_from_options(self._arguments)
        return warnings_of_mode(config, self._loaded(config), mode)


def settings_types(loaded: Sequence[tuple[PluginRecord, Any]]) -> dict[str, type[Any]]:
    """The settings class of every plugin that is loaded, by its name."""
    found = ((record.name, getattr(plugin, "settings_type", None)) for record, plugin in loaded)
    return {name: settings_type for name, settings_type in found if settings_type is not None}


def _view(config: Config) -> Configuration:
    return Configuration(
        servers={name: asdict(server) for name, server in config.servers.items()}, sources=config.sources
    )
