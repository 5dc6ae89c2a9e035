"""What commands of plugins are handed that do not only set ``run``."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from pml_kit.command_line.commands import add_sources, verbs_of
from pml_settings.command_files import load_from_options

RunWith = Callable[[argparse.Namespace, Any], Awaitable[int]]
Run = Callable[[argparse.Namespace], int | None]


def with_verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command, and each of its verbs."""
    yield parser
    if (verbs := verbs_of(parser)) is not None:
        for below in verbs.choices.values():
            yield from with_verbs(below)


def prepare(parser: argparse.ArgumentParser, plugin: str) -> None:
    """Give a command or a verb of a plugin the options, and its functions the objects, that they need.

    What ``run`` does not do, those for files, for the installation, with services and on trial do, in that order.
    """
    functions = [
        function
        for function in (
            parser.get_default("run"),
            _on_files(parser.get_default("run_on_files")),
            _on_installation(parser.get_default("run_on_installation")),
            _with_services(parser, plugin),
            _on_trial(parser, plugin),
        )
        if function is not None
    ]
    if len(functions) > 1:
        parser.set_defaults(run=partial(_first, functions))
    elif functions:
        parser.set_defaults(run=functions[0])


def _first(functions: list[Run], arguments: argparse.Namespace) -> int | None:
    """The status of the first that does anything."""
    return next((status for function in functions if (status := function(arguments)) is not None), None)


def _on_files(function: Any) -> Run | None:
    if function is None:
        return None
    from pml_core.plugins.local_plugins import found
    from pml_settings.command_files import Files

    from .loaded_plugins import loaded_plugins

    return lambda arguments: function(arguments, Files(arguments, found, loaded_plugins))


def _on_installation(function: Any) -> Run | None:
    if function is None:
        return None
    from .installation import ConfiguredInstallation

    return lambda arguments: function(arguments, ConfiguredInstallation(arguments))


def _with_services(parser: argparse.ArgumentParser, plugin: str) -> Run | None:
    if (function := parser.get_default("run_with")) is None:
        return None
    add_sources(parser)
    parser.add_argument("--connect", action="store_true", help="start the servers instead of using what is remembered")
    return partial(run, function, plugin)


def _on_trial(parser: argparse.ArgumentParser, plugin: str) -> Run | None:
    if (function := parser.get_default("run_on_trial")) is None:
        return None
    from . import trial

    add_sources(parser)
    return partial(trial.run, function, plugin)


def run(function: RunWith, plugin: str, arguments: argparse.Namespace) -> int:
    """Run a command with its plugin's services; the exit status."""
    config = load_from_options(arguments)
    return asyncio.run(_run(function, plugin, arguments, config))


async def _run(function: RunWith, plugin: str, arguments: argparse.Namespace, config: Any) -> int:
    from pml_core.gateway import Gateway
    from pml_kit.command_line.start_progress import until_started
    from pml_kit.system.logs import Logs

    async with Gateway(config, Logs("warning", config.gateway.log_format), connect=arguments.connect) as gateway:
        if arguments.connect:
            await until_started(gateway.catalog.servers)
        return await function(arguments, gateway.assembly.services(plugin))
