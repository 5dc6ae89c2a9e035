"""``pml auth``: log in to remote servers that want to know who uses them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from pml_kit.offers import AccessEvent

if TYPE_CHECKING:
    from pml_settings.installation import Installation


def run_login(arguments: argparse.Namespace, installation: Installation) -> int:
    """Let a human log in; the exit status."""
    asyncio.run(_log_in(arguments.server, installation))
    print(f"logged in to {arguments.server}")
    return 0


def run_logout(arguments: argparse.Namespace, installation: Installation) -> int:
    """Forget the tokens; the exit status."""
    asyncio.run(_log_out(arguments.server, installation))
    print(f"logged out of {arguments.server}")
    return 0


async def _log_in(server: str, installation: Installation) -> None:
    async with installation.login(server) as login:
        await login.transport.log_in(login.endpoint, show=lambda text: print(text, file=sys.stderr, flush=True))
        await login.report(_change("login.created", server))


async def _log_out(server: str, installation: Installation) -> None:
    async with installation.login(server) as login:
        # First, because somebody who deletes might end the command before it is through.
        await login.report(_change("login.deleted", server))
        await login.transport.log_out(login.endpoint)


def _change(code: str, server: str) -> AccessEvent:
    return AccessEvent(kind="change", target="logins", code=code, details={"server": server})
