"""HTTP to one server: connections, credentials, redirects, and errors that say what happened."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from pml_hookspecs import TransportError
from pml_kit.jsonrpc.junk import shown

from .errors import BrokenError, LoginRefusedError, RefusedError, UnreachableError
from .http1 import Http1
from .login import FORBIDDEN, UNAUTHORIZED, AuthChallenge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from .credentials import Ask, Credentials
    from .options import Target
    from .settings import Settings

SUCCESS, REDIRECT, FAILURE = 200, 300, 400
KEEPS_METHOD = (307, 308)
MAX_REDIRECTS = 5
# For every request it logs the whole address, in which people put tokens.
logging.getLogger("httpx2").setLevel(logging.WARNING)
ERROR_BODY = 1 << 20
"""How much of the body of an error is read [bytes]."""
WORTH_RETRYING = frozenset({408, 425, 429, *range(500, 600)})


class Connection:
    """Sends HTTP requests to one server for the links."""

    def __init__(self, target: Target, settings: Settings, credentials: Credentials | None) -> None:
        """Prepare; nothing is sent."""
        self._target, self._settings, self._credentials = target, settings, credentials
        self.ask: Ask | None = None
        """Asks for a login for more than the one that is kept allows; None where nobody can be asked."""
        self._proxied = _proxied(target)
        self._url = httpx2.URL(target.url)
        # As many connections as requests: what waits for its turn waits with the link, which lets answers pass it.
        limits = httpx2.Limits(max_connections=None)
        verify: Any = httpx2.create_ssl_context() if target.secure else False  # takes longer than all the rest
        own = None if self._proxied else Http1(verify or None, settings.connect_timeout_s)
        self._client = httpx2.AsyncClient(
            headers=[(name.encode(), value.encode("latin-1")) for name, value in target.headers.items()],
            verify=verify,
            timeout=httpx2.Timeout(None, connect=settings.connect_timeout_s),
            limits=limits,
            transport=own,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._credentials is not None:
            self._credentials.close()
        await self._client.aclose()

    async def check(self) -> None:
        """See whether anybody listens at the address; nothing is sent. Behind a proxy that cannot be told.

        Raises:
            UnreachableError: Nobody does.
        """
        if self._proxied:
            return
        target = self._target
        try:
            async with asyncio.timeout(self._settings.connect_timeout_s):
                _, writer = await asyncio.open_connection(target.host, target.port)
        except TimeoutError:
            limit = f"{self._settings.connect_timeout_s:g} s"
            raise UnreachableError(
                f"{target.peer} cannot be reached at {target.place}: no connection in {limit}"
            ) from None
        except OSError as error:
            raise self._unreachable(error) from None
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            return

    @asynccontextmanager
    async def send(
        self, method: str, headers: Mapping[str, str], content: bytes | None = None, *, url: str | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request, and give its answer once its headers are there.

        Redirects are followed while they stay with the same origin and keep the method.

        Raises:
            UnreachableError: Nobody listens.
            BrokenError: The connection failed, then or while the body is read.
            TransportError: The request cannot be sent at all, or there are no credentials for it.
        """
        with self._translated():
            response = await self._authorized(method, url or self._url, headers, content)
            try:
                yield response
            finally:
                await response.aclose()

    async def _authorized(
        self, method: str, url: httpx2.URL | str, headers: Mapping[str, str], content: bytes | None
    ) -> httpx2.Response:
        if self._credentials is None:
            return await self._redirected(method, url, headers, content)
        used, tried = await self._credentials.header(), set[int]()
        while True:
            response = await self._redirected(method, url, {**headers, **_authorization(used)}, content)
            refused = _refusal(response)
            if refused is None or refused.status in tried:
                return response
            tried.add(refused.status)
            try:
                better = await self._credentials.better(used, refused, self.ask)
            except BaseException:
                await response.aclose()
                raise
            if better is None:
                return response
            await response.aclose()
            used = better

    async def _redirected(
        self, method: str, url: httpx2.URL | str, headers: Mapping[str, str], content: bytes | None
    ) -> httpx2.Response:
        # As bytes: what a server gave us to repeat need not be ASCII, and event ids are sent as UTF-8 (WHATWG HTML).
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        request = self._client.build_request(method, url, headers=fields, content=content)
        for _ in range(MAX_REDIRECTS):
            response = await self._client.send(request, stream=True, follow_redirects=False)
            following = response.next_request
            if following is None or not _may_follow(request, following, response.status_code):
                return response
            await response.aclose()
            request = following
        return await self._client.send(request, stream=True, follow_redirects=False)

    async def failure(self, response: httpx2.Response) -> RefusedError:
        """What an answer that is no success means. Reads its body."""
        status, peer = response.status_code, self._target.peer
        body = await self._error_body(response)
        if response.next_request is not None:
            to = response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None)
            message = f"{peer} sends us elsewhere, to {to}; if that is right, make it the address"
        elif status in (UNAUTHORIZED, FORBIDDEN):
            message = self._denial(status, _refusal(response))
        else:
            message = f"{peer} answered with HTTP status {status} {response.reason_phrase}".rstrip()
            if said := shown(body):
                message += f": {said}"
        login = self._target.login
        personal = self._target.principal and login is not None and not login.machine
        if personal and status in (UNAUTHORIZED, FORBIDDEN) and _refusal(response) is not None:
            return LoginRefusedError(message, status=status, body=body)
        # A human may log in while the gateway runs, and it is to find that.
        mendable = status == UNAUTHORIZED and login is not None and not login.machine
        return RefusedError(message, status=status, body=body, retryable=mendable or status in WORTH_RETRYING)

    async def _error_body(self, response: httpx2.Response) -> bytes:
        body = b""
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > ERROR_BODY:
                    break
        except httpx2.HTTPError:
            return body
        return body

    def _denial(self, status: int, refused: AuthChallenge | None) -> str:
        name, login, principal = self._target.name, self._target.login, self._target.principal
        if principal and login is not None and not login.machine:
            return f"server {name!r} wants {'a' if status == UNAUTHORIZED else 'another'} login of {principal!r}"
        if login is None:
            return (
                f"server {name!r} refuses the credentials in its headers (HTTP status {status}); "
                f"correct bearer or headers in [servers.{name}]"
            )
        if login.machine:
            return (
                f"server {name!r} refuses the token that {login.issuer or login.token_url} gave to {login.client_id!r} "
                f"(HTTP status {status}); correct oauth in [servers.{name}]"
            )
        if status == FORBIDDEN and refused is not None:
            missing = f": {' '.join(refused.scopes)}" if refused.scopes else ""
            return f"server {name!r} wants more than its login allows{missing}; run: pml auth login {name}"
        return (
            f"server {name!r} asks for a login (HTTP status {status}); run: pml auth login {name} "
            f"(or set bearer or headers in [servers.{name}])"
        )

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"{self._target.peer} cannot be reached at {self._target.place}: {error}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        peer = self._target.peer
        try:
            yield
        except (httpx2.ConnectError, httpx2.ProxyError) as error:
            raise self._unreachable(error) from error
        except httpx2.ConnectTimeout as error:
            limit = f"{self._settings.connect_timeout_s:g} s"
            raise BrokenError(f"{peer}: no connection to {self._target.place} in {limit}") from error
        except (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise TransportError(f"{peer}: the request cannot be sent: {error}", retryable=False) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            what = str(error) or type(error).__name__
            raise BrokenError(f"{peer}: the connection broke: {what}") from error


def _refusal(response: httpx2.Response) -> AuthChallenge | None:
    return AuthChallenge.of(response.status_code, response.headers.get("www-authenticate", ""))


def _authorization(header: str | None) -> dict[str, str]:
    return {} if header is None else {"Authorization": header}


def _may_follow(request: httpx2.Request, following: httpx2.Request, status: int) -> bool:
    def origin(url: httpx2.URL) -> tuple[Any, ...]:
        return url.scheme, url.host, url.port, url.userinfo

    return (status in KEEPS_METHOD or request.method == "GET") and origin(request.url) == origin(following.url)


def _proxied(target: Target) -> bool:
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    scheme = urlsplit(target.url).scheme
    return bool(proxies.get(scheme) or proxies.get("all")) and not proxy_bypass(target.host)
