"""Callers that are not let in are told of; and what plugins serve ends with the key that it was asked for with."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from listening import listening, until
from starlette.responses import StreamingResponse
from starlette.routing import Route

from pml_hookspecs import Identity, UnauthenticatedError
from pml_testing.fakes import FakeServices
from pml_testing.transport_ends import SOON_S
from pml_transport_http.server import callers

pytestmark = pytest.mark.anyio
ADA, BOT = Identity(principal="ada", access_key="k1"), Identity(principal="bot", access_key="k2")
SECRET = "hunter2-of-somebody"


class Knowing(FakeServices):
    """Services with a plugin that lets nobody in without a key."""

    def __init__(self):
        super().__init__()
        self.keys = {"pml_ada": ADA, "pml_bot": BOT}

    async def identify(self, token):
        if token is None:
            raise UnauthenticatedError("A key is required")
        if token.startswith("pml_") and token not in self.keys:
            raise UnauthenticatedError("The API key is not valid")
        return self.keys.get(token)


@pytest.fixture
def knowing(monkeypatch):
    monkeypatch.setattr(callers, "FRESH_S", 0.02)
    return Knowing()


def told(services):
    """What was told of access, but for the port it came from."""
    return [(e.kind, e.target, e.address.rpartition(":")[0], e.code, e.message, e.session) for e in services.access]


async def test_each_caller_that_is_not_let_in_is_told_of_and_never_its_token(knowing):
    expected = [
        ("denied", "POST /mcp", "127.0.0.1", "access.unauthenticated", "A key is required", None),
        ("denied", "POST /mcp", "127.0.0.1", "access.unauthenticated", "A key is required", None),
        ("denied", "POST /mcp", "127.0.0.1", "access.unauthenticated", "The API key is not valid", None),
        ("denied", "GET /dash/page", "127.0.0.1", "access.unauthenticated", "A key is required", None),
    ]
    async with listening(knowing) as listener, listener.client() as client:
        assert (await client.modern("tools/list")).status_code == 401
        assert (await client.modern("tools/list", authorization=f"Bearer {SECRET}")).status_code == 401
        assert (await client.modern("tools/list", authorization=f"Bearer pml_{SECRET}")).status_code == 401
        assert (await client.http.get(f"/dash/page?key={SECRET}")).status_code == 401
        assert told(knowing) == expected
        assert SECRET not in str(knowing.access)
        assert (await client.modern("tools/list", authorization="Bearer pml_ada")).status_code == 200
        assert (await client.http.get("/healthz")).status_code == 200
        assert (await client.http.get("/no", headers={"authorization": "Bearer pml_ada"})).status_code == 404
        assert len(knowing.access) == len(expected)


async def test_tokens_of_the_settings_are_told_of_where_no_plugin_knows_keys():
    services = FakeServices()
    async with listening(services, tokens={"carol": "c-token"}) as listener, listener.client() as client:
        for headers in ({}, {"authorization": "Bearer c-tokem"}):
            assert (await client.modern("tools/list", **headers)).status_code == 401
        messages = [message for *_, message, _ in told(services)]
        assert messages == ["A bearer token is needed", "The bearer token is not valid"]


async def test_foreign_pages_and_foreign_names_are_told_of():
    services = FakeServices()
    async with listening(services) as listener, listener.client() as client:
        assert (await client.modern("tools/list", origin="https://evil.example")).status_code == 403
        assert (await client.modern("tools/list", host="evil.example")).status_code == 403
        assert [code for _, _, _, code, _, _ in told(services)] == ["access.forbidden"] * 2


def pages(*, ends):
    """A page that goes on and on, and one that has not begun; ``ends`` has which of them were ended."""

    async def stream(request):
        async def pieces():
            try:
                while True:
                    yield b"piece\n"
                    await asyncio.sleep(0.005)
            finally:
                ends.append(request.state.identity.principal)

        return StreamingResponse(pieces())

    async def slow(request):
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(f"slow {request.state.identity.principal}")

    return {"dash": [Route("/stream", stream), Route("/slow", slow)]}


async def test_a_page_that_streams_ends_soon_after_its_key_and_nobody_elses(knowing):
    ends = []
    async with listening(knowing, routes=pages(ends=ends)) as listener, listener.client() as client:
        ada, bot = ({"authorization": f"Bearer pml_{name}"} for name in ("ada", "bot"))
        async with (
            asyncio.timeout(SOON_S),
            client.http.stream("GET", "/dash/stream", headers=ada) as theirs,
            client.http.stream("GET", "/dash/stream", headers=bot) as others,
        ):
            reading, more = theirs.aiter_raw(), others.aiter_raw()
            assert b"piece" in await anext(reading)
            await asyncio.sleep(0.1)  # it lasts while its key counts
            assert ends == []
            del knowing.keys["pml_ada"]
            with pytest.raises(httpx2.RemoteProtocolError):
                async for _ in reading:
                    pass
            assert ends == ["ada"]
            assert b"piece" in await anext(more)
        assert (await client.http.get("/dash/stream", headers=ada)).status_code == 401


async def test_a_page_that_has_not_begun_is_answered_that_its_key_does_not_count(knowing):
    ends = []
    async with listening(knowing, routes=pages(ends=ends)) as listener, listener.client() as client:
        asking = asyncio.ensure_future(client.http.get("/dash/slow", headers={"authorization": "Bearer pml_ada"}))
        await until(lambda: not ends and not asking.done())
        await asyncio.sleep(0.1)
        del knowing.keys["pml_ada"]
        async with asyncio.timeout(SOON_S):
            answer = await asking
        assert (answer.status_code, ends) == (401, ["slow ada"])
        assert answer.json()["error"]["code"] == "access.unauthenticated"
        assert knowing.access[-1].code == "access.unauthenticated"
