"""Where logins at servers are kept: in the store, encrypted, and bound to server and principal."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from pml_hookspecs import TransportError

from .keys import LoginKeyError

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents

    from .keys import LoginKeys

LOGINS, LEASES = "http.logins", "http.leases"
LEASE_S = 60.0
"""How long one gateway may take to renew a login before another one may [s]."""
POLL_S = 0.1
FRESH_S = 2.0
"""How old what was read of a login may be when it is used [s]."""
PAGE = 1000
SHARED = ""
"""In the place of a principal: the login is everybody's."""


class PrincipalLogins:
    """Those of one principal; of :data:`SHARED`, inside a :class:`~pml_transport_http.login_store.LoginStore`."""

    fresh_s = FRESH_S

    def __init__(self, documents: Documents, keys: LoginKeys, principal: str) -> None:
        self._documents, self._keys, self._principal = documents, keys, principal

    async def get(self, server: str) -> str | None:
        """What is kept for a server; None when there is nothing.

        Raises:
            LoginKeyError: It cannot be decrypted, or is not this principal's.
        """
        found = await self._documents.get(LOGINS, self._key(server))
        if found is None:
            return None
        kept = json.loads(await self._keys.open(str(found.value["sealed"])))
        # Whoever can write into the store could give one principal what is another's.
        if (kept["server"], kept["principal"]) != (server, self._principal):
            raise LoginKeyError("it was made for somebody else; somebody has changed the store")
        return str(kept["login"])

    async def put(self, server: str, value: str | None) -> None:
        """Keep ``value`` for a server; None forgets."""
        key = self._key(server)
        if value is None:
            await self._documents.delete(LOGINS, key)
            return
        kept = {"server": server, "principal": self._principal, "login": value}
        sealed = await self._keys.seal(json.dumps(kept))
        marks = {"server": server, "principal": self._principal}
        await self._documents.put(LOGINS, key, {"sealed": sealed}, marks=marks)

    @asynccontextmanager
    async def lease(self, server: str) -> AsyncIterator[None]:
        """No other gateway renews the login meanwhile: what it is renewed with may be good once.

        Raises:
            TransportError: Another one does not come to an end.
        """
        async with lease(self._documents, self._key(server)):
            yield

    def _key(self, server: str) -> str:
        return hashlib.sha256(json.dumps([server, self._principal]).encode()).hexdigest()


@asynccontextmanager
async def lease(documents: Documents, key: str) -> AsyncIterator[None]:
    """Hold what one gateway has at a time.

    Raises:
        TransportError: Another one does not let go.
    """
    try:
        async with asyncio.timeout(2 * LEASE_S):
            while not await _taken(documents, key):  # noqa: ASYNC110 - the other one may be another process
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise TransportError("another gateway renews the login and does not come to an end", retryable=True) from None
    try:
        yield
    finally:
        await documents.delete(LEASES, key)


async def _taken(documents: Documents, key: str) -> bool:
    until = datetime.now(UTC) + timedelta(seconds=LEASE_S)
    return await documents.put(LEASES, key, {"by": uuid4().hex}, expires_at=until, if_version=0) is not None


async def principals(documents: Documents, server: str) -> list[str]:
    """Who has a login of their own at a server, in order."""
    found = {one.marks["principal"] async for one in _all(documents, {"server": server})}
    return sorted(found - {SHARED})


async def rotate(documents: Documents, keys: LoginKeys) -> int:
    """Encrypt all logins with a new key; how many these are. Gateways that run take part."""
    async with lease(documents, "rotation"):
        await keys.add()
        found = [one async for one in _all(documents)]
        for one in found:
            await _sealed_anew(documents, keys, one.key)
        await keys.drop()
    return len(found)


async def _sealed_anew(documents: Documents, keys: LoginKeys, key: str) -> None:
    while (found := await documents.get(LOGINS, key)) is not None:
        sealed = await keys.seal(await keys.open(str(found.value["sealed"])))
        put = documents.put(LOGINS, key, {"sealed": sealed}, marks=found.marks, if_version=found.version)
        if await put is not None:  # or else it was renewed meanwhile
            return


async def _all(documents: Documents, marks: dict[str, str] | None = None) -> AsyncIterator[Document]:
    cursor = None
    while True:
        page = await documents.find(LOGINS, marks=marks, limit=PAGE, cursor=cursor)
        for one in page.items:
            yield one
        if (cursor := page.cursor) is None:
            return
