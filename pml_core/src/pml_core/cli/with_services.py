"""Commands of plugins that look at the user's catalog, store and settings."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from .sources import add_sources, load_as_told

RunWith = Callable[[argparse.Namespace, Any], Awaitable[int]]


def prepare(parser: argparse.ArgumentParser, plugin: str) -> None:
    """Give a plugin's command, and each of its verbs, the options and the services that ``run_with`` needs."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to the parsers of verbs
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                prepare(below, plugin)
    function, on_trial = parser.get_default("run_with"), parser.get_default("run_on_trial")
    if on_trial is not None:
        from . import trial

        add_sources(parser)
        parser.set_defaults(run=lambda arguments: trial.run(on_trial, plugin, arguments))
    if function is None:
        return
    add_sources(parser)
    parser.add_argument("--connect", action="store_true", help="start the servers instead of using what is remembered")
    without = parser.get_default("run")

    def either(arguments: argparse.Namespace) -> int:
        status: int | None = None if without is None else without(arguments)
        return run(function, plugin, arguments) if status is None else status

    parser.set_defaults(run=either)


def run(function: RunWith, plugin: str, arguments: argparse.Namespace) -> int:
    """Run a command with its plugin's services; the exit status."""
    config = load_as_told(arguments)
    return asyncio.run(_run(function, plugin, arguments, config))


async def _run(function: RunWith, plugin: str, arguments: argparse.Namespace, config: Any) -> int:
    from pml_core.gateway import Gateway
    from pml_core.logs import Logs

    from .progress import until_started

    async with Gateway(config, Logs("warning", config.gateway.log_format), connect=arguments.connect) as gateway:
        if arguments.connect:
            await until_started(gateway.catalog.servers)
        return await function(arguments, gateway.assembly.services(plugin))
