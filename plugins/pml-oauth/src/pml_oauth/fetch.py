"""What the authorization server says, as JSON, within limits of time and size."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from .settings import check_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

TIMEOUT_S = 5.0
MAX_BYTES = 1 << 20
OK = 200


class FetchError(Exception):
    """It cannot be had now. Says no more of the answer than its status."""


class Fetcher:
    """Asks the authorization server. Follows no redirects: what comes from elsewhere is not what it said."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None

    async def json(
        self, url: str, form: Mapping[str, str] | None = None, client: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """The object at an address.

        Args:
            url: With https, or on this machine.
            form: What to send there; None only reads.
            client: Id and secret to send it with.

        Raises:
            FetchError: There is none, or it took longer than :data:`TIMEOUT_S`, or is larger than :data:`MAX_BYTES`.
        """
        try:
            check_url(url, "what the authorization server names")
            async with asyncio.timeout(TIMEOUT_S):
                found = json.loads(await self._body(url, form, client))
        except TimeoutError:
            raise FetchError(f"{url} did not answer within {TIMEOUT_S:g} s") from None
        except (ValueError, RecursionError) as exc:
            raise FetchError(f"{url}: {exc}") from None
        if not isinstance(found, dict):
            raise FetchError(f"{url} has no JSON object")
        return found

    async def _body(self, url: str, form: Mapping[str, str] | None, client: tuple[str, str] | None) -> bytes:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(follow_redirects=False, timeout=TIMEOUT_S)
        auth = None if client is None else httpx2.BasicAuth(*client)
        method = "GET" if form is None else "POST"
        headers = {"accept": "application/json"}
        body = bytearray()
        try:
            async with self._client.stream(method, url, data=form, auth=auth, headers=headers) as answer:
                if answer.status_code != OK:
                    raise FetchError(f"{url} answered with status {answer.status_code}")
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > MAX_BYTES:
                        raise FetchError(f"{url} has more than {MAX_BYTES} bytes")
        except httpx2.HTTPError as exc:
            raise FetchError(f"{url}: {type(exc).__name__}") from None
        return bytes(body)

    async def close(self) -> None:
        """Ask no more."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
