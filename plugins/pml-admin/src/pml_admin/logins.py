"""``pml auth``: log in to remote servers that want to know who uses them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from pml_kit.errors import OperatorError
from pml_kit.mcp.principal_logins import PrincipalLogins, for_principal
from pml_kit.offers import AccessEvent

if TYPE_CHECKING:
    from pml_hookspecs import Endpoint
    from pml_settings.installation import Installation, ServerLogin

OWN = "per_principal"


def run_login(arguments: argparse.Namespace, installation: Installation) -> int:
    """Let a human log in; the exit status."""
    asyncio.run(_log_in(arguments.server, arguments.principal, installation))
    print(f"logged in to {_place(arguments)}")
    return 0


def run_logout(arguments: argparse.Namespace, installation: Installation) -> int:
    """Forget the tokens; the exit status."""
    asyncio.run(_log_out(arguments.server, arguments.principal, installation))
    print(f"logged out of {_place(arguments)}")
    return 0


def run_list(_arguments: argparse.Namespace, installation: Installation) -> int:
    """Show who has a login of their own where; the exit status."""
    for server in _of_principals(installation):
        for principal in asyncio.run(_principals(server, installation)):
            print(f"{server}\t{principal}")
    return 0


def run_rotate(_arguments: argparse.Namespace, installation: Installation) -> int:
    """Encrypt all logins with a new key; the exit status."""
    remote = [name for name, one in installation.config.servers.items() if one.url]
    if not remote:
        raise OperatorError("no server is reached by an address, so there are no logins")
    print(f"{asyncio.run(_rotate(remote[0], installation))} logins have a new key")
    return 0


def _place(arguments: argparse.Namespace) -> str:
    return f"{arguments.server} as {arguments.principal}" if arguments.principal else str(arguments.server)


def _of_principals(installation: Installation) -> list[str]:
    found = [name for name, one in installation.config.servers.items() if one.sharing == OWN]
    if not found:
        raise OperatorError(f'no server has sharing = "{OWN}", so there are no logins of principals')
    return found


def _endpoint(server: str, principal: str, installation: Installation, login: ServerLogin) -> Endpoint:
    """Whose login it is about.

    Raises:
        OperatorError: It is not said, or there are none of principals.
    """
    own = installation.config.servers[server].sharing == OWN
    if own and not principal:
        raise OperatorError(f"each principal has a login of its own at {server}; say whose: --principal NAME")
    if principal and not own:
        raise OperatorError(f'all share one login at {server}; sharing = "{OWN}" in [servers.{server}] changes that')
    return for_principal(login.endpoint, principal) if own else login.endpoint


async def _log_in(server: str, principal: str, installation: Installation) -> None:
    async with installation.login(server) as login:
        endpoint = _endpoint(server, principal, installation, login)
        await login.transport.log_in(endpoint, show=lambda text: print(text, file=sys.stderr, flush=True))
        await login.report(_change("login.created", server, principal))


async def _log_out(server: str, principal: str, installation: Installation) -> None:
    async with installation.login(server) as login:
        endpoint = _endpoint(server, principal, installation, login)
        # First, because somebody who deletes might end the command before it is through.
        await login.report(_change("login.deleted", server, principal))
        await login.transport.log_out(endpoint)


async def _principals(server: str, installation: Installation) -> list[str]:
    async with installation.login(server) as login:
        keeper = login.transport
        return [*await keeper.logins(login.endpoint)] if isinstance(keeper, PrincipalLogins) else []


async def _rotate(server: str, installation: Installation) -> int:
    async with installation.login(server) as login:
        await login.report(AccessEvent(kind="change", target="logins", code="login.keys_rotated"))
        return await login.transport.rotate() if isinstance(login.transport, PrincipalLogins) else 0


def _change(code: str, server: str, principal: str) -> AccessEvent:
    details = {"server": server, **({"principal": principal} if principal else {})}
    return AccessEvent(kind="change", target="logins", code=code, details=details)
