"""The authorization server: where it says things, and the keys that it signs with."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .fetch import FetchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import jwt

    from .fetch import Fetcher

FRESH_S = 600.0
"""How long it is believed what the authorization server said of itself, and which keys it has [s]."""
RETRY_S = 30.0
"""Least time between two questions, whatever comes meanwhile: tokens can name any key [s]."""
FAILED_RETRY_S = 5.0
"""The same after one that was not answered [s]."""
TRUSTED_S = 3600.0
"""How long its keys count while it cannot be asked [s]."""
LEAST_RSA_BITS = 2048
MAX_KEYS = 100


class Issuer:
    """What one authorization server says of itself."""

    def __init__(self, url: str, fetcher: Fetcher) -> None:
        """Nothing is asked yet."""
        self.url, self._fetcher = url, fetcher
        self._metadata: dict[str, Any] = {}
        self._keys: list[dict[str, Any]] = []
        self._said_at = self._asked_at = float("-inf")
        self._problem = ""
        self._lock = asyncio.Lock()

    async def key(self, id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key that a token was signed with, for this algorithm alone; None when the server has no such key.

        Keys are read anew when they are old, or do not have this one, but not more often than every :data:`RETRY_S`.

        Raises:
            FetchError: The server cannot be asked, and has not been lately.
        """
        await self._keep_fresh()
        found = self._find(id, algorithm)
        if found is None:
            await self._refresh()
            found = self._find(id, algorithm)
        if not self._keys or time.monotonic() - self._said_at >= TRUSTED_S:
            raise FetchError(self._problem or f"{self.url} has no keys")
        return found

    async def endpoint(self, name: str) -> str:
        """An address of its metadata, such as ``introspection_endpoint``.

        Raises:
            FetchError: The server cannot be asked, or has no such address.
        """
        await self._keep_fresh()
        found = self._metadata.get(name)
        if not isinstance(found, str):
            raise FetchError(self._problem or f"{self.url} says no {name}")
        return found

    async def _keep_fresh(self) -> None:
        if time.monotonic() - self._said_at >= FRESH_S:
            await self._refresh()

    async def _refresh(self) -> None:
        """Ask it, unless somebody has just before."""
        async with self._lock:
            now = time.monotonic()
            if now - self._asked_at < (FAILED_RETRY_S if self._problem else RETRY_S):
                return
            self._asked_at = now
            try:
                metadata = await self._discover()
                keys = await self._read_keys(metadata)
            except FetchError as exc:
                self._problem = str(exc)
                return
            self._metadata, self._said_at, self._problem = metadata, now, ""
            self._keys = keys

    async def _read_keys(self, metadata: dict[str, Any]) -> list[dict[str, Any]]:
        url = metadata.get("jwks_uri")
        if not isinstance(url, str):
            return []  # one whose tokens are asked about needs none
        keys = (await self._fetcher.json(url)).get("keys")
        if not isinstance(keys, list):
            raise FetchError(f"{url} has no list of keys")
        return [key for key in keys[:MAX_KEYS] if isinstance(key, dict)]

    async def _discover(self) -> dict[str, Any]:
        """Its metadata (RFC 8414, else OpenID Connect Discovery), which have to name it as it is configured.

        Raises:
            FetchError: There are none, or they are of another server.
        """
        problems = []
        for url in _metadata_urls(self.url):
            try:
                found = await self._fetcher.json(url)
            except FetchError as exc:
                problems.append(str(exc))
                continue
            if found.get("issuer") == self.url:
                return found
            problems.append(f"{url} is about another issuer than {self.url}")
        raise FetchError("; ".join(problems))

    def _find(self, id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Of a token that names no key, the only one that fits; None when several do."""
        fit = list(_usable(self._keys, id, algorithm))
        return fit[0] if len(fit) == 1 or (fit and id is not None) else None


def _usable(keys: list[dict[str, Any]], id: str | None, algorithm: str) -> Iterator[jwt.PyJWK]:
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    for key in keys:
        operations = key.get("key_ops", ["verify"])
        if (
            (id is not None and key.get("kid") != id)
            or key.get("alg", algorithm) != algorithm
            or key.get("use", "sig") != "sig"
            or key.get("kty") == "oct"
            or not (isinstance(operations, list) and "verify" in operations)
        ):
            continue
        public = {name: value for name, value in key.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "oth")}
        try:
            made = jwt.PyJWK(public, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue  # of another kind than the algorithm, or not understood
        if not isinstance(made.key, RSAPublicKey) or made.key.key_size >= LEAST_RSA_BITS:
            yield made


def _metadata_urls(issuer: str) -> tuple[str, ...]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = (f"{origin}/.well-known/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration"))
    return tuple(dict.fromkeys((*inserted, f"{origin}{path}/.well-known/openid-configuration")))
