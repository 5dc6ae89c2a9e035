"""Where commands take the configuration from."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_core.settings.config import Config


def add_sources(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """The options that say where the configuration comes from.

    Args:
        parser: Gets them.
        below: It is a verb's, whose command has them too: what stands before the verb is kept.
    """
    if below:
        parser.argument_default = argparse.SUPPRESS
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration, or an MCP client's own file")
    parser.add_argument("--mode", metavar="NAME", help="exposure mode (as --set gateway.tools_exposure=NAME)")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=argparse.SUPPRESS if below else [],
        metavar="PATH=VALUE",
        help="set one value; may be repeated",
    )


_told: set[str] = set()


def load_as_told(arguments: argparse.Namespace) -> Config:
    """The configuration that the options of :func:`add_sources` ask for; files that do not count are named once.

    Raises:
        OperatorError: It cannot be read or does not fit.
    """
    from pml_core.settings.config import load

    config = load(arguments.config, overrides=arguments.overrides, mode=arguments.mode)
    for line in config.ignored.values():
        if line not in _told:
            print(f"pml: {line}", file=sys.stderr)
            _told.add(line)
    return config


def settings_types(config: Config) -> dict[str, type[Any]]:
    """The settings class of every plugin that loads, by plugin name; of those that are blocked, too."""
    from pml_core.plugins.local_plugins import found as plugins
    from pml_core.plugins.registry import State
    from pml_kit.shapes import settings_problem

    types: dict[str, type[Any]] = {}
    for record in plugins(replace(config, gateway=replace(config.gateway, block=()))):
        blocked = record.file and {record.name, record.dist} & set(config.gateway.block)
        if record.state is State.FOUND and not blocked:
            try:
                plugin = record.entry_point.load()
                found = None if settings_problem(plugin) else getattr(plugin, "settings_type", None)
            except (Exception, SystemExit):  # noqa: S112 - the doctor reports it
                continue
            if found is not None:
                types[record.name] = found
    return types
