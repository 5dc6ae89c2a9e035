"""Has the principal of a call log in, where its server wants that, and goes on when that is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from pml_hookspecs import CannotAskError, RpcError, TransportError
from pml_kit.mcp.principal_logins import LoginRequiredError, PrincipalLogins, for_principal
from pml_mcp.wire.client import Client, current_client
from pml_mcp.wire.schemes import scheme_of

if TYPE_CHECKING:
    from pml_hookspecs import RawObject, Run
    from pml_kit.mcp.principal_logins import LoginInvitation
    from pml_mcp.servers.connection_context import ConnectionContext

T = TypeVar("T")
COMPLETE = "notifications/elicitation/complete"


class Logins:
    """Those at one server."""

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self._asking: WeakValueDictionary[tuple[str, object], asyncio.Lock] = WeakValueDictionary()
        self._made: dict[str, int] = {}
        """How many logins of each principal were made here."""

    async def through(self, run: Run, work: Callable[[], Awaitable[T]]) -> T:
        """What ``work`` gives, after a login where that is what it takes.

        Raises:
            LoginRequiredError: It does, and nobody made one; with the address where that can be done.
        """
        principal, client = run.session.principal, current_client.get()
        seen = self._made.get(principal, 0)
        try:
            return await work()
        except LoginRequiredError as exc:
            if client is None or client.conversation.peer.principal != principal:
                raise LoginRequiredError(self._unattended(principal, exc)) from None
        lock = self._asking.setdefault((principal, client.conversation), asyncio.Lock())
        async with lock:
            # Calls that come together ask once.
            if self._made.get(principal, 0) == seen:
                await self._log_in(run, client)
                self._made[principal] = seen + 1
        return await work()

    async def _log_in(self, run: Run, client: Client) -> None:
        name, principal = self._context.name, run.session.principal
        invitation = await self._invitation(principal)
        asked = _takes_addresses(client)
        if asked:
            question = {
                "mode": "url",
                "message": f"Log in to {name!r} as yourself. What {principal!r} calls there is done with this login. "
                "Go on only if you asked for this.",
                "url": invitation.url,
                **({} if client.modern else {"elicitationId": invitation.id}),
            }
            try:
                answer: Mapping[str, object] = await run.ask("elicitation/create", question)
            except (CannotAskError, RpcError):
                answer = {}
            asked = answer.get("action") == "accept"
        if not asked:
            raise LoginRequiredError(
                f"{principal!r} has no login at server {name!r}. Log in at {invitation.url} and call again.",
                invitation.url,
            )
        try:
            with run.question():
                await invitation.made()
        except TransportError as exc:
            raise LoginRequiredError(f"{principal!r} has no login at server {name!r}: {exc}") from None
        finally:
            if not client.modern:
                client.tell(COMPLETE, _about(invitation))

    async def _invitation(self, principal: str) -> LoginInvitation:
        endpoint = await self._context.find_endpoint()
        transport = self._context.open_transport(scheme_of(endpoint.address))
        if not isinstance(transport, PrincipalLogins):
            raise TransportError(f"{principal!r} cannot log in to it: its transport has no logins", retryable=False)
        try:
            return await transport.invite(for_principal(endpoint, principal))
        except NotImplementedError as exc:
            raise TransportError(f"{principal!r} cannot log in to it: {exc}", retryable=False) from None

    def _unattended(self, principal: str, exc: LoginRequiredError) -> str:
        return (
            f"{exc}, and no client of {principal!r} waits that could be asked for it: run pml auth login "
            f"{self._context.name} --principal {principal}, or call the server from a client first"
        )


def _takes_addresses(client: Client) -> bool:
    able = client.capabilities.get("elicitation")
    return isinstance(able, Mapping) and isinstance(able.get("url"), Mapping)


def _about(invitation: LoginInvitation) -> RawObject:
    from pml_hookspecs import RawObject

    return RawObject.of({"elicitationId": invitation.id})
