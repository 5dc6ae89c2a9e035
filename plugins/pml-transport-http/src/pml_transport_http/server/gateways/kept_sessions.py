"""Sessions outlive their gateways: what a client said when it began one is in the store, for whoever takes it up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject, encode
from pml_kit.identifiers import gateway_name
from pml_transport_http.server.headers import SESSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pml_hookspecs import Document, Documents
    from pml_transport_http.server.http import Access, Request

    from .peers import Peers

SESSIONS = "http.sessions"
"""Collection of documents: one for each session, by its id."""
KEPT = timedelta(days=1)
"""How long after its beginning a session can be taken up, by the clock of whoever looks."""


class KeptSessions:
    """What is known in the store of the sessions of all gateways."""

    def __init__(self, peers: Peers, log: Any) -> None:
        self._peers, self._log = peers, log
        self._taking = asyncio.Lock()
        self._forgetting: set[asyncio.Task[None]] = set()

    def keep(self, id: str, access: Access, endpoint: str, params: Mapping[str, Any]) -> None:
        """A session has begun here, with these params of ``initialize``."""
        if (documents := self._peers.documents) is not None:
            value = _value(access, endpoint, RawObject.of(params))
            documents.put_soon(SESSIONS, id, value, expires_at=datetime.now(UTC) + KEPT)

    def forget(self, id: str) -> None:
        """It is over: nobody takes it up any more."""
        if (documents := self._peers.documents) is not None:
            task = asyncio.get_running_loop().create_task(_delete(documents, id), name="http:session over")
            self._forgetting.add(task)
            task.add_done_callback(self._forgetting.discard)

    async def take_up(
        self, request: Request, begin: Callable[[str, RawObject], Awaitable[None]], has: Callable[[str], bool]
    ) -> str:
        """The gateway that has the session of ``request`` now; ``""`` when there is none.

        Args:
            request: Came with the id of a session whose first gateway is gone.
            begin: Begins it here, with the params that its client gave.
            has: Whether it is here already.
        """
        id, documents = request.headers[SESSION].decode("latin-1"), self._peers.documents
        if documents is None:
            return ""
        async with self._taking:
            if has(id):
                return gateway_name()
            found = await documents.get(SESSIONS, id)
            if found is None or not _is_same(found, request.access, request.endpoint):
                return ""
            holder = str(found.value["holder"])
            if holder != gateway_name() and await self._peers.lives(holder):
                return holder
            params = RawObject(encode(found.value["params"]))
            value = _value(request.access, request.endpoint, params)
            until = datetime.now(UTC) + KEPT
            if await documents.put(SESSIONS, id, value, expires_at=until, if_version=found.version) is None:
                again = await documents.get(SESSIONS, id)
                return "" if again is None else str(again.value["holder"])
            await begin(id, params)
            self._log.info("http.session_taken_up", principal=request.access.principal)
            return gateway_name()


def _value(access: Access, endpoint: str, params: RawObject) -> dict[str, Any]:
    return {"holder": gateway_name(), "whose": _whose(access), "endpoint": endpoint, "params": params}


def _whose(access: Access) -> list[str]:
    """What its requests must agree on; what the key allows is as it says now."""
    return [access.principal, access.access_key, access.agent]


def _is_same(found: Document, access: Access, endpoint: str) -> bool:
    return list(found.value["whose"]) == _whose(access) and found.value["endpoint"] == endpoint


async def _delete(documents: Documents, id: str) -> None:
    with suppress(Exception):  # it expires
        await documents.delete(SESSIONS, id)
