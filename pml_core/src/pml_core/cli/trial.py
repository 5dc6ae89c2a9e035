"""A gateway that serves nobody, for commands of plugins that try out what is installed."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import replace
from pml_settings.command_files import load_from_options
from pml_settings.installation import as_json

if TYPE_CHECKING:
    from pml_core.gateway import Gateway
    from pml_hookspecs import CallNext, Tracer, Wrapper
    from pml_kit.command_line.trial import Trial
    from pml_settings.config import Config

RunOnTrial: TypeAlias = "Callable[[argparse.Namespace, Any, Trial], Awaitable[int]]"


@contextmanager
def _temporary_home() -> Iterator[None]:
    """Nothing of what is tried is kept among the user's data."""
    before = os.environ.get("PML_HOME")
    with tempfile.TemporaryDirectory(prefix="pml-trial-") as folder:
        os.environ["PML_HOME"] = folder
        try:
            yield
        finally:
            del os.environ["PML_HOME"]
            os.environ |= {} if before is None else {"PML_HOME": before}


def run(function: RunOnTrial, plugin: str, arguments: argparse.Namespace) -> int:
    """Run a command with its plugin's services and the trial; the exit status.

    Raises:
        OperatorError: No gateway can be made under this configuration.
    """
    config = load_from_options(arguments)
    with _temporary_home():
        return asyncio.run(_run(function, plugin, arguments, config))


async def _run(function: RunOnTrial, plugin: str, arguments: argparse.Namespace, config: Config) -> int:
    from pml_core.gateway import Gateway
    from pml_core.plugins import local_plugins
    from pml_kit.system.logs import Logs

    records = local_plugins.found(config)
    found = [as_json(record) for record in records]
    others = [record for record in records if record.kind != "store"]
    gateway_settings = replace(config.gateway, tracers=(), strict=False)
    # Without sources nothing was asked for by name, and executions are kept in memory.
    tried = replace(config, servers={}, gateway=gateway_settings, sources=())
    async with Gateway(tried, Logs("error"), others, connect=False) as gateway:
        trial = _trial(gateway, found, config.gateway.tracers)
        return await function(arguments, gateway.assembly.services(plugin), trial)


def _trial(gateway: Gateway, found: Sequence[Mapping[str, str]], tracers: Sequence[str]) -> Trial:
    from pml_core.kernel.chain import HOOK, NamedWrapper, fold
    from pml_core.kernel.tracing import NamedTracer, Tracing
    from pml_kit.command_line.trial import Trial

    async def driver(kind: str, name: str) -> Any:
        made = gateway.assembly.driver(kind, name)
        await gateway.supervisor.enter(name, made, required=True)
        if kind == "tracer":
            gateway.supervisor.on_close(made.flush)
        return made

    def use(wrappers: Sequence[tuple[str, Wrapper]], tracers: Sequence[tuple[str, Tracer]], last: CallNext) -> CallNext:
        chain: CallNext = fold([NamedWrapper(*one) for one in wrappers], last, gateway.log)
        gateway.dispatcher.chains = chain, chain
        # The gateway is nobody's but the command's.
        gateway.dispatcher.tracing = Tracing([NamedTracer(*one) for one in tracers], gateway.log)
        return chain

    return Trial(
        plugins=found,
        hooks={HOOK: [(one.plugin, one.wrapper) for one in gateway.wrappers], "pml_filter_tools": [*gateway.filters]},
        tracers=tracers,
        driver=driver,
        use=use,
    )
