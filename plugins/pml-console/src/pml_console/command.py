"""``pml console``: the pages of a gateway on this machine, for whoever starts it."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pml_kit.command_line.commands import add_sources
from pml_kit.errors import OperatorError

if TYPE_CHECKING:
    import argparse

TOKEN_ENV = "PML_PLUGINS__CONSOLE__ONE_TIME_TOKEN"  # noqa: S105 - a variable's name
START_S = 60.0


def add(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "console",
        help="open a page in the browser: what runs, what waits for you, what ran",
        description=(
            "Serve the console on this machine alone, and open it in the browser with a link that works once. It shows "
            "the history and answers the approvals of the same store as every gateway with this configuration."
        ),
    )
    parser.add_argument("--port", type=int, default=0, help="where to serve it; 0 for any that is free")
    parser.add_argument("--no-browser", action="store_true", help="only print the link")
    add_sources(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Become the gateway; beside it, for as long as it takes to start, is what prints the link.

    One process, so that nothing stays behind however this command ends.
    """
    port, token = free_port(arguments.port), secrets.token_urlsafe(24)
    command = [sys.executable, "-m", "pml_core", "serve", "--http", f"127.0.0.1:{port}"]
    for option, value in (("--config", arguments.config), ("--mode", arguments.mode)):
        command += [option, str(value)] if value else []
    for value in [*lazy_servers(arguments), *arguments.overrides]:
        command += ["--set", value]
    _beside(lambda gateway: _announce(gateway, port, token, browser=not arguments.no_browser))
    os.execve(sys.executable, command, {**os.environ, TOKEN_ENV: token})  # noqa: S606 - this program itself


def _beside(announce: Callable[[int], None]) -> None:
    """Call ``announce`` with the number of this process in another, which the gateway need not reap."""
    gateway = os.getpid()
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            announce(gateway)
    finally:
        os._exit(0)


def _announce(gateway: int, port: int, token: str, *, browser: bool) -> None:
    """Print the link once the gateway listens; nothing when it ends before, as it says itself why."""
    if not _listens(gateway, port):
        return
    link = f"http://127.0.0.1:{port}/console/enter?token={token}"
    print(f"The console, by a link that works once:\n  {link}\nCtrl-C ends it.", flush=True)  # noqa: T201
    if browser:
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(link)


def lazy_servers(arguments: argparse.Namespace) -> list[str]:
    """Settings by which no server starts before a call needs it: the agents' own gateways have them running already.

    Raises:
        OperatorError: The configuration cannot be read.
    """
    from pml_settings.config import load

    config = load(arguments.config, overrides=arguments.overrides, mode=arguments.mode)
    return [
        f"servers.{name}.start=lazy"
        for name, server in config.servers.items()
        # A dot ends a name in the path of a setting.
        if server.start == "eager" and "." not in name
    ]


def free_port(port: int) -> int:
    """``port``, or with 0 any that is free.

    Raises:
        OperatorError: It is taken: the link would lead to whoever has it, token and all.
    """
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as exc:
            problem = f"the console cannot be served at port {port} ({exc})"
            raise OperatorError(problem, "Name another with --port, or leave it out.") from None
        return int(found.getsockname()[1])


def _listens(gateway: int, port: int) -> bool:
    """Whether the gateway listens, once it does or has ended."""
    until = time.monotonic() + START_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.kill(gateway, 0)
            with contextlib.suppress(ConnectionError, TimeoutError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            time.sleep(0.1)
    return False
