"""``pml serve``: run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_kit.command_line.commands import add_sources

if TYPE_CHECKING:
    from pml_clients.configuration.files import State
    from pml_core.gateway import Gateway
    from pml_settings.config import Config

BY_HAND = (
    "pml serve speaks MCP on standard input and output: your MCP client starts it, nobody types into it.\n"
    "Ctrl-C ends it. pml import takes over your client's servers; pml plugins doctor says whether all is well."
)

STOP_S = 9
"""Longest that a signal leaves the gateway to stop after its delay [s]; then the kernel ends it, whatever it does."""
AGAIN_S = 1.0
"""Pause before what could not be opened is tried again [s]."""


def add(subcommands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "serve",
        help="run the gateway for MCP clients",
        description=(
            "Serve one MCP client on standard input and output, or many over HTTP, in front of all servers. Changes of "
            "the configuration files take effect while it runs, as far as they can; SIGHUP has it look at once."
        ),
    )
    add_sources(parser)
    address = parser.add_mutually_exclusive_group()
    address.add_argument("--listen", metavar="SCHEME:ADDRESS", help="serve by the installed transport of that scheme")
    address.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="serve over HTTP instead, at /mcp, and at /mcp/NAME for each [endpoints.NAME]; needs a transport for it",
    )
    parser.add_argument("--strict", action="store_true", help="refuse to start when any plugin fails")
    parser.add_argument(
        "--allow-unknown", action="store_true", help="go on with settings of plugins that are not installed"
    )
    parser.set_defaults(run=run, needs_gateway=True)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client goes away or a signal comes; the exit status."""
    from pml_clients.configuration import restarts
    from pml_clients.configuration.files import state_of
    from pml_clients.configuration.trust import candidates, store
    from pml_settings.config import load

    overrides = [*arguments.overrides, *(["gateway.strict=true"] if arguments.strict else [])]
    read = functools.partial(load, arguments.config, overrides=overrides, mode=arguments.mode)
    if not arguments.allow_unknown:
        read = functools.partial(_owned, read)
    files = [*candidates(Path.cwd(), arguments.config), store(), restarts.file()]
    known = state_of(files)  # before they are read, so that no change is missed
    source = ConfigFiles(read(), read, files, known, restarts.asked(), arguments)
    address = arguments.listen if arguments.http is None else f"http://{arguments.http}"
    if address is not None:
        where = functools.partial(_say_where, path="" if arguments.http is None else "/mcp")
        return asyncio.run(_serve(source, address, one_client=False, started=where))
    if sys.stdin is not None and sys.stdin.isatty():
        print(BY_HAND, file=sys.stderr)
    return asyncio.run(_serve(source, "stdio:", one_client=True))


def _owned(read: Callable[[], Config]) -> Config:
    """A configuration all of whose settings have a plugin that reads them.

    Raises:
        OperatorError: It does not fit, or one has none.
    """
    from pml_core.plugins import local_plugins
    from pml_core.plugins.assembly import check_owned

    config = read()
    if config.tables:
        check_owned(config, local_plugins.found(config))
    return config


class ConfigFiles(NamedTuple):
    """A configuration, and how to read it again."""

    config: Config
    read: Callable[[], Config]
    files: Sequence[Path]
    known: State
    """How the files were when the configuration was read."""
    restarts: Mapping[str, str]
    """The restarts that had been asked for by then, as :func:`pml_clients.configuration.restarts.asked` has them."""
    options: argparse.Namespace


def _to_change(options: argparse.Namespace) -> Any:
    """See :data:`pml_clients.configuration.view.SERVED_FILES`."""
    from pml_core.plugins.local_plugins import found
    from pml_settings.command_files import Files

    # What is loaded runs here: to load it anew would run users' files of Python once more.
    return Files(options, found, lambda _config: ())


def _say_where(bound: str, path: str) -> None:
    print(f"serving MCP at {bound}{path} (Ctrl-C ends it)", file=sys.stderr, flush=True)


async def _serve(
    source: ConfigFiles, address: str, *, one_client: bool, started: Callable[[str], None] | None = None
) -> int:  # fmt: skip
    from pml_clients.configuration.view import SERVED_FILES
    from pml_core.gateway import Gateway
    from pml_core.plugins import local_plugins
    from pml_hookspecs import Offer
    from pml_kit.system.garbage import seldom_collected

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stopped_by: list[signal.Signals] = []
    asked = asyncio.Event()
    at_terminal = _has_terminal()

    def stop(number: signal.Signals) -> None:
        stopped_by.append(number)
        if task is not None:
            task.cancel()

    def hang_up() -> None:
        if at_terminal and not _has_terminal():  # it was closed, and with it everything that runs in it
            stop(signal.SIGHUP)
        asked.set()

    _on_end(loop, stop, STOP_S + math.ceil(source.config.gateway.shutdown_delay_s))
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    try:
        with seldom_collected() as up:
            gateway = Gateway(source.config, one_client=one_client)
            gateway.offers.add(Offer(SERVED_FILES, functools.partial(_to_change, source.options)))
            async with gateway:
                up()
                gateway.soon(_follow, gateway, source, asked)
                if source.config.gateway.local:
                    gateway.soon(local_plugins.watch, source.config, gateway.log)
                await gateway.serve(address, started=started)
    except asyncio.CancelledError:
        if not stopped_by:
            raise
        return 128 + stopped_by[0]
    return 0


def _on_end(loop: asyncio.AbstractEventLoop, stop: Callable[[signal.Signals], None], limit_s: int) -> None:
    """Have SIGTERM and SIGINT call ``stop``, and the kernel end a gateway that has not ended ``limit_s`` later."""

    def end(number: int, _frame: FrameType | None) -> None:
        if left_s := signal.alarm(limit_s):
            signal.alarm(left_s)  # a second signal gives no more time
        with contextlib.suppress(RuntimeError):  # it has stopped already
            loop.call_soon_threadsafe(stop, signal.Signals(number))

    # Not handlers of the loop's: those would wait for a loop that stands still.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _has_terminal() -> bool:
    """Whether the process belongs to a terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def _follow(gateway: Gateway, source: ConfigFiles, asked: asyncio.Event) -> None:
    """Apply changes of the configuration, once the gateway has started."""
    await gateway.announcement.made.wait()
    while True:
        try:
            reload = gateway.reload(source.read, source.restarts)
        except (ImportError, OSError) as exc:  # no file can be opened just now
            gateway.log.warning("changes of the configuration are not seen yet; tried again soon", problem=str(exc))
            await asyncio.sleep(AGAIN_S)
        else:
            break
    await reload.follow(source.files, source.known, asked)
