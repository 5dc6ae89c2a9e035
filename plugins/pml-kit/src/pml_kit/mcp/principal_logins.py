"""Logins of principals at servers: between those who know for whom a call is, and the transports that send it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pml_hookspecs import Endpoint, TransportError, replace

OPTION = "principal"


class LoginRequiredError(TransportError):
    """The server lets a principal in with a login alone, and there is none that counts; nothing was done."""

    def __init__(self, message: str, url: str = "") -> None:
        """``url`` is where to log in; ``""`` where that is not known yet."""
        super().__init__(message, retryable=False)
        self.url = url


class _Principal(str):
    """A principal that an endpoint is for. No configuration can hold one."""

    __slots__ = ()


def for_principal(endpoint: Endpoint, principal: str) -> Endpoint:
    """``endpoint`` for one principal: what is connected there carries this one's login and nobody else's."""
    found: Endpoint = replace(endpoint, options={**endpoint.options, OPTION: _Principal(principal)})
    return found


def principal_of(endpoint: Endpoint) -> str:
    """Whose connection it is to be; ``""`` where all share one."""
    found = endpoint.options.get(OPTION)
    return str(found) if isinstance(found, _Principal) else ""


class LoginInvitation(Protocol):
    """A way to log in that is good once, for a while, and for one principal."""

    @property
    def id(self) -> str:
        """Tells it from all others."""
        ...

    @property
    def url(self) -> str:
        """Where that principal's browser is to go. Whoever else goes there gets nothing by it."""
        ...

    async def made(self) -> None:
        """Wait until the login is made and kept.

        Raises:
            TransportError: It failed, or nobody made it in time.
        """
        ...


@runtime_checkable
class PrincipalLogins(Protocol):
    """What a transport has besides :class:`pml_hookspecs.Transport` that keeps logins of principals.

    Endpoints are those of :func:`for_principal`, also for ``log_in`` and ``log_out``.
    """

    async def invite(self, endpoint: Endpoint) -> LoginInvitation:
        """A way for the endpoint's principal to log in to a server; the one that is open, where there is one.

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
            TransportError: There is none to be had.
        """
        ...

    async def logins(self, endpoint: Endpoint) -> Sequence[str]:
        """The principals with a login of their own at a server, in order.

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
        """
        ...

    async def rotate(self) -> int:
        """Encrypt all such logins with a new key; how many these are."""
        ...
