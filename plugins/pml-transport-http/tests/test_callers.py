"""Clients whose keys plugins know."""

from __future__ import annotations

import asyncio

import pytest
from listening import Script, as_body, as_headers, events, listening, until
from starlette.responses import JSONResponse
from starlette.routing import Route

from pml_hookspecs import Endpoint, Identity, TransportError, UnauthenticatedError
from pml_kit.offers import OpenRoute
from pml_testing.fakes import FakeServices
from pml_testing.transport_ends import SOON_S
from pml_transport_http import Http, Settings
from pml_transport_http.server import callers

pytestmark = pytest.mark.anyio
ADA = Identity(
    principal="ada",
    access_key="k1",
    scopes=frozenset({"read"}),
    mode="hybrid",
    intent="read files",
    execution_mode="dry_run",
    allow=("files:*",),
    deny=("files:delete",),
)
BOT = Identity(principal="agent:bot", access_key="k2", agent="bot")
NEEDED = "MCP API key authentication required"


class Knowing(FakeServices):
    """Services with a plugin that knows keys."""

    def __init__(self, *, required=False):
        super().__init__()
        self.keys = {"pml_ada": ADA, "pml_bot": BOT}
        self.required, self.asked, self.problem = required, [], None
        self.gate = asyncio.Event()
        self.gate.set()

    async def identify(self, token):
        self.asked.append(token)
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        if token is None and self.required:
            raise UnauthenticatedError(NEEDED)
        if token is not None and token.startswith("pml_") and token not in self.keys:
            raise UnauthenticatedError("The API key is not valid")
        return self.keys.get(token)


@pytest.fixture
def knowing():
    return Knowing()


@pytest.fixture
def believed(monkeypatch):
    """Sets for how long it is believed what was said of a key."""
    return lambda seconds: monkeypatch.setattr(callers, "FRESH_S", seconds)


@pytest.mark.parametrize("revision", ["legacy", "modern"])
async def test_what_plugins_say_of_a_key_is_what_its_client_is(knowing, revision):
    async with listening(knowing) as listener:
        for token in ("pml_ada", "pml_bot"):
            async with listener.client(authorization=f"Bearer {token}") as client:
                if revision == "modern":
                    assert (await client.modern("tools/list")).status_code == 200
                else:
                    await client.initialize()
        ada, bot = listener.peers
        for peer, identity in ((ada, ADA), (bot, BOT)):
            for name in ("principal", "access_key", "scopes", "mode", "intent", "execution_mode", "agent"):
                assert getattr(peer, name) == getattr(identity, name), name
            assert (peer.allow, peer.deny) == (identity.allow, identity.deny)


async def test_a_key_that_is_refused_is_told_why_and_a_missing_one_is_asked_for(knowing):
    knowing.required = True
    async with listening(knowing) as listener, listener.client() as client:
        wrong = await client.modern("tools/list", authorization="Bearer pml_nobody")
        assert (wrong.status_code, wrong.json()["error"]["message"]) == (401, "The API key is not valid")
        assert wrong.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        missing = await client.modern("tools/list")
        assert (missing.status_code, missing.json()["error"]["message"]) == (401, NEEDED)
        assert missing.headers["www-authenticate"] == "Bearer"
        for odd in (b"Basic pml_ada", b"Bearer other", b"Bearer pml_\xff", b"Bearer"):
            response = await client.modern("tools/list", authorization=odd)
            assert (response.status_code, response.json()["error"]["message"]) == (401, NEEDED), odd
        assert listener.peers == []
    assert all("pml_" not in str(line) for line in knowing.log.lines)


async def test_where_no_key_is_needed_everybody_else_is_local(knowing):
    async with listening(knowing) as listener, listener.client() as client:
        assert (await client.modern("tools/list")).status_code == 200
        assert (await client.modern("tools/list", authorization="Bearer other")).status_code == 200
        assert [(peer.principal, peer.access_key) for peer in listener.peers] == [("local", "")]


async def test_tokens_of_the_settings_count_beside_keys_and_cost_no_question(knowing):
    knowing.required = True
    async with listening(knowing, tokens={"carol": "c-token"}) as listener, listener.client() as client:
        knowing.asked.clear()
        assert (await client.modern("tools/list", authorization="Bearer c-token")).status_code == 200
        assert knowing.asked == []
        assert (await client.modern("tools/list", authorization="Bearer pml_ada")).status_code == 200
        assert [peer.principal for peer in listener.peers] == ["carol", "ada"]
        refused = await client.modern("tools/list", authorization="Bearer c-tokem")
        assert (refused.status_code, refused.json()["error"]["message"]) == (401, NEEDED)


async def test_a_key_is_asked_for_once_in_a_while(knowing, believed):
    believed(3600)
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        knowing.asked.clear()
        knowing.gate.clear()
        together = [asyncio.ensure_future(client.modern("tools/list")) for _ in range(8)]
        await until(lambda: knowing.asked)
        knowing.gate.set()
        assert [response.status_code for response in await asyncio.gather(*together)] == [200] * 8
        assert (await client.modern("tools/list")).status_code == 200
        assert knowing.asked == ["pml_ada"]


async def test_a_request_that_is_taken_back_does_not_end_the_question_of_others(knowing):
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        knowing.asked.clear()
        knowing.gate.clear()
        first = asyncio.ensure_future(client.modern("tools/list"))
        await until(lambda: knowing.asked)
        second = asyncio.ensure_future(client.modern("tools/list"))
        first.cancel()
        await asyncio.wait([first])
        knowing.gate.set()
        assert (await second).status_code == 200


async def test_a_revoked_key_is_refused_and_its_session_ends(knowing, believed):
    believed(0)
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        await client.initialize()
        assert (await client.post(client.calling("echo"))).status_code == 200
        del knowing.keys["pml_ada"]
        assert (await client.post(client.calling("echo"))).status_code == 401
        assert len(listener.script.closings) == 1
        knowing.keys["pml_ada"] = ADA
        assert (await client.post(client.calling("echo"))).status_code == 404


async def test_a_stream_ends_soon_after_its_key(knowing, believed):
    believed(0.02)
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        await client.initialize()
        async with asyncio.timeout(SOON_S), client.listen() as standing:
            assert standing.status_code == 200
            del knowing.keys["pml_ada"]
            async for _ in events(standing):
                pass
        assert len(listener.script.closings) == 1


async def test_a_stream_goes_on_with_a_newer_token_of_the_same_login_and_ends_with_the_last(knowing, believed):
    believed(0.02)
    knowing.keys["pml_newer"] = ADA
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        await client.initialize()
        async with asyncio.timeout(SOON_S), client.listen() as standing:
            assert (await client.post(client.calling("echo"), authorization="Bearer pml_newer")).status_code == 200
            del knowing.keys["pml_ada"]
            await until(lambda: "pml_ada" not in knowing.asked[-4:])
            assert (await client.post(client.calling("echo"))).status_code == 401
            assert (await client.post(client.calling("echo"), authorization="Bearer pml_newer")).status_code == 200
            assert listener.script.closings == []
            del knowing.keys["pml_newer"]
            async for _ in events(standing):
                pass
        assert len(listener.script.closings) == 1


async def test_a_subscription_and_a_call_of_a_client_without_a_session_end_soon_after_its_key(knowing, believed):
    believed(0.02)

    async def wait(params, origin):
        origin.link.notify("notifications/subscriptions/acknowledged", {"notifications": {}})
        await asyncio.Event().wait()

    script = Script(**{"subscriptions/listen": wait, "slow": wait})
    async with (
        listening(knowing, script) as listener,
        listener.client(authorization="Bearer pml_ada") as client,
        listener.client(authorization="Bearer pml_bot") as other,
    ):
        message, headers = client.alone("subscriptions/listen", {"notifications": {}})
        async with asyncio.timeout(SOON_S), client.stream(message, **headers) as response:
            reading = events(response)
            await anext(reading)
            calling = asyncio.ensure_future(client.modern("tools/call", {"name": "slow", "arguments": {}}))
            theirs = asyncio.ensure_future(other.modern("tools/call", {"name": "slow", "arguments": {}}))
            await until(lambda: len([1 for method, _ in script.requests if method == "tools/call"]) == 2)
            del knowing.keys["pml_ada"]
            async for _ in reading:
                pass
            assert "does not count any more" in (await calling).text
        assert len(script.closings) == 1
        assert not theirs.done()
        theirs.cancel()
        await asyncio.wait([theirs])


class SlowBody:
    """A request whose body ends when it is told to."""

    def __init__(self, client, method, params):
        self._message, self._headers = client.alone(method, params)
        self._client, self.rest = client, asyncio.Event()

    async def _pieces(self):
        body = as_body(self._message)
        yield body[:10]
        await self.rest.wait()
        yield body[10:]

    async def send(self):
        """Status and text of the answer; of a stream its beginning will do."""
        headers = as_headers(self._headers)
        async with self._client.http.stream("POST", "/mcp", content=self._pieces(), headers=headers) as response:
            return response.status_code, "" if response.status_code == 200 else (await response.aread()).decode()


async def test_a_key_that_ends_while_the_body_comes_in_opens_nothing(knowing, believed):
    believed(0.02)

    async def wait(params, origin):
        origin.link.notify("notifications/subscriptions/acknowledged", {"notifications": {}})
        await asyncio.Event().wait()

    script = Script(**{"subscriptions/listen": wait})
    async with listening(knowing, script) as listener, listener.client(authorization="Bearer pml_ada") as client:
        request = SlowBody(client, "subscriptions/listen", {"notifications": {}})
        sending = asyncio.ensure_future(request.send())
        await until(lambda: "pml_ada" in knowing.asked)
        await asyncio.sleep(0.2)
        del knowing.keys["pml_ada"]
        request.rest.set()
        status, said = await sending
        assert (status, "The API key is not valid" in said) == (401, True)
        assert (listener.peers, script.requests) == ([], [])


async def test_a_key_that_says_something_else_when_the_body_is_there_counts_as_it_is_then(knowing, believed):
    believed(0.02)
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        request = SlowBody(client, "tools/list", {})
        sending = asyncio.ensure_future(request.send())
        await until(lambda: "pml_ada" in knowing.asked)
        await asyncio.sleep(0.1)
        knowing.keys["pml_ada"] = BOT
        request.rest.set()
        assert (await sending)[0] == 200
        assert [peer.principal for peer in listener.peers] == ["agent:bot"]


async def test_a_key_whose_request_is_still_coming_in_does_not_make_way(knowing, believed, monkeypatch):
    believed(3600)
    monkeypatch.setattr(callers, "MOST_KEYS", 1)
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        knowing.asked.clear()
        request = SlowBody(client, "tools/list", {})
        sending = asyncio.ensure_future(request.send())
        await until(lambda: knowing.asked)
        assert (await client.modern("tools/list", authorization="Bearer pml_bot")).status_code == 200
        request.rest.set()
        assert (await sending)[0] == 200
        assert knowing.asked == ["pml_ada", "pml_bot"]


async def test_a_stream_lasts_while_its_key_counts_or_cannot_be_looked_up(knowing, believed):
    believed(0.01)
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        await client.initialize()
        async with asyncio.timeout(SOON_S), client.listen() as standing:
            knowing.problem = OSError("the disk is gone")
            knowing.asked.clear()
            await until(lambda: len(knowing.asked) > 2)
            knowing.problem = None
            knowing.asked.clear()
            await until(lambda: len(knowing.asked) > 2)
            listener.links[0].notify("notifications/message", {"data": "still here"})
            reading = events(standing)
            while (await anext(reading))[1] is None:
                pass


@pytest.mark.attack
async def test_an_open_route_finds_out_itself_who_it_is_and_opens_no_other(knowing):
    async def page(request):
        try:
            who = await request.state.identify(request.query_params.get("token"))
        except UnauthenticatedError as exc:
            return JSONResponse(str(exc), 401)
        return JSONResponse([who.principal, who.access_key, hasattr(request.state, "identity")])

    async def closed(request):
        return JSONResponse(request.state.identity.principal)

    knowing.required = True
    routes = {"site": [OpenRoute(Route("/page", page)), Route("/closed", closed)]}
    async with listening(knowing, routes=routes) as listener, listener.client() as client:
        assert (await client.http.get("/site/page?token=pml_ada")).json() == ["ada", "k1", False]
        for token in ("?token=pml_no", "", "?token=%E2%82%AC", "?token=a%0Ab"):
            assert (await client.http.get(f"/site/page{token}")).status_code == 401
        for path in ("/site/closed", "/site/elsewhere", "/site/page/more", "/site", "/mcp"):
            assert (await client.http.get(path)).status_code == 401
        ada = await client.http.get("/site/closed", headers={"authorization": "Bearer pml_ada"})
        assert ada.json() == "ada"


async def test_where_keys_cannot_be_looked_up_nobody_is_let_in_and_nothing_is_told(knowing):
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        knowing.problem = OSError("the password of the database is hunter2")
        for _ in range(3):
            response = await client.modern("tools/list")
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            assert "hunter2" not in response.text
        assert [event for _, event, _ in knowing.log.lines] == ["http.keys_unknown"]
        knowing.problem = None
        assert (await client.modern("tools/list")).status_code == 200


async def test_plugins_pages_and_the_shared_routes_know_whose_key_it_is(knowing):
    async def page(request):
        who = request.state.identity
        return JSONResponse([who.principal, who.access_key, who.agent, list(who.allow or [])])

    routes = {"dash": [Route("/page", page)], "api": [Route("/executions", page)]}
    async with listening(knowing, routes=routes) as listener, listener.client() as client:
        for path in ("/dash/page", "/api/executions"):
            ada = await client.http.get(path, headers={"authorization": "Bearer pml_ada"})
            assert ada.json() == ["ada", "k1", "", ["files:*"]]
            bot = await client.http.get(path, headers={"authorization": "Bearer pml_bot"})
            assert bot.json() == ["agent:bot", "k2", "bot", []]
            assert (await client.http.get(path)).json() == ["local", "", "", []]
            assert (await client.http.get(path, headers={"authorization": "Bearer pml_no"})).status_code == 401
        knowing.required = True
        refused = await client.http.get("/api/executions")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.json() == {"error": {"code": "access.unauthenticated", "message": NEEDED}}
        knowing.problem = OSError("the disk is gone")
        unknown = await client.http.get("/api/executions")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (503, "access.unavailable")


async def test_where_keys_are_required_others_can_be_served_without_tokens(knowing):
    endpoint = Endpoint(name="default", address="http://0.0.0.0:0")
    with pytest.raises(TransportError, match="have keys be required"):
        await Http(Settings(), knowing).serve(endpoint, lambda link, peer: Script(), started=lambda bound: None)
    knowing.required = True
    async with listening(knowing, address="http://0.0.0.0:0") as listener, listener.client() as client:
        here = f"192.0.2.1:{listener.port}"
        assert (await client.modern("tools/list", host=here)).status_code == 401
        assert (await client.modern("tools/list", host=here, authorization="Bearer pml_ada")).status_code == 200


async def test_clients_without_sessions_make_way_when_there_are_many_keys(knowing):
    async def wait(params, origin):
        origin.link.notify("notifications/subscriptions/acknowledged", {"notifications": {}})
        await asyncio.Event().wait()

    knowing.keys = {f"pml_{n}": Identity(principal=f"p{n}", access_key=str(n)) for n in range(5)}
    script = Script(**{"subscriptions/listen": wait})
    async with listening(knowing, script, max_sessions=2) as listener, listener.client() as client:
        message, headers = client.alone("subscriptions/listen", {"notifications": {}})
        async with client.stream(message, **headers, authorization="Bearer pml_0") as response:
            reading = events(response)
            await anext(reading)
            for n in (1, 2, 3, 4):
                assert (await client.modern("tools/list", authorization=f"Bearer pml_{n}")).status_code == 200
            assert len(script.closings) == 3
            assert not script.cancelled.is_set()
