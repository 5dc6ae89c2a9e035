"""Requests of clients without a handshake that wait for an answer to a server's question (MCP 2026-07-28)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from pml_hookspecs import RawObject, RpcError
from pml_kit.identifiers import HANDLE, handle
from pml_kit.json_members import with_member
from pml_kit.mcp.protocol import INVALID_PARAMS
from pml_mcp.wire.client import NOT_ASKED

from .exchange import ModernExchange

Work = asyncio.Task[Mapping[str, Any]]


class RequestIdentity(NamedTuple):
    """What the request that comes back must agree with."""

    principal: str
    endpoint: str
    method: str
    name: str


class PendingRequest(NamedTuple):
    """A request that waits for its client to come back."""

    exchange: ModernExchange
    work: Work
    bound_to: RequestIdentity
    expiry: asyncio.TimerHandle


BEHIND = "pml>"
"""Begins a state of gateways behind this one. It goes back there, by whichever gateway."""
NAME, MEMBER = "requestState", b'"requestState"'


def given_on(result: RawObject) -> RawObject:
    """A server's ``result`` for the client: the state of a gateway behind this one is marked as such."""
    state = result.get(NAME) if MEMBER in result.raw else None
    if isinstance(state, str) and state.startswith((HANDLE, BEHIND)):
        return with_member(result, NAME, BEHIND + state)
    return result


def given_back(params: RawObject) -> RawObject:
    """A client's ``params`` for the server: the state is what the server gave out."""
    state = params.get(NAME) if MEMBER in params.raw else None
    if isinstance(state, str) and state.startswith(BEHIND):
        return with_member(params, NAME, state.removeprefix(BEHIND))
    return params


class PendingInput:
    """All requests that wait for their clients, by ``requestState``."""

    def __init__(self, answer_wait_s: float, most: int) -> None:
        """Wait ``answer_wait_s`` seconds for each; ``most`` wait at a time, and the oldest is given up for another."""
        self._answer_wait_s, self._most = answer_wait_s, most
        self._waiting: dict[str, PendingRequest] = {}
        self._orphans: set[Work] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, exchange: ModernExchange, work: Work, bound_to: RequestIdentity) -> str:
        """Leave a request waiting; the state by which it is found again."""
        if len(self._waiting) >= self._most:
            self._give_up(next(iter(self._waiting)))
        state = handle()
        expiry = asyncio.get_running_loop().call_later(self._answer_wait_s, self._give_up, state)
        self._waiting[state] = PendingRequest(exchange, work, bound_to, expiry)
        exchange.leave()
        return state

    def take(self, state: object, bound_to: RequestIdentity) -> PendingRequest | None:
        """The request that waits under ``state``, once; None when the state is a server's.

        Raises:
            RpcError: It is a gateway's, but of another one, or for another request, or does not wait any more.
        """
        if not isinstance(state, str) or not state.startswith(HANDLE):
            return None
        pending = self._waiting.get(state)
        if pending is None:
            raise RpcError(INVALID_PARAMS, NOT_ASKED.message)
        if pending.bound_to != bound_to:
            raise RpcError(INVALID_PARAMS, "requestState belongs to another request")
        del self._waiting[state]
        pending.expiry.cancel()
        return pending

    def _give_up(self, state: str) -> None:
        pending = self._waiting.pop(state, None)
        if pending is not None:
            pending.expiry.cancel()
            pending.exchange.give_up("the client did not come back with an answer")
            self._orphans.add(pending.work)
            pending.work.add_done_callback(self._orphan_ended)

    def _orphan_ended(self, work: Work) -> None:
        self._orphans.discard(work)
        if not work.cancelled():
            work.exception()  # nobody is left to hear of it

    async def close(self) -> None:
        """Give up everything."""
        for state in list(self._waiting):
            self._give_up(state)
        works = list(self._orphans)
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
