"""What a transport asks itself, such as to log in, reaches nobody but whoever runs the gateway."""

from __future__ import annotations

import pytest

from pml_hookspecs import Identity, Origin, RawObject, RpcError, encode
from pml_mcp.wire.client import NO_CLIENT
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
URL = {"mode": "url", "url": "https://as.example/authorize?state=1", "message": "Log in.", "elicitationId": "e"}
ABLE = {"elicitation": {"form": {}, "url": {}}}


def logging_in():
    """A server whose transport asks for a login within each call."""

    async def answer(_name, _arguments):
        origin = Origin(None, server.link)
        try:
            said = await server.handler.request("elicitation/create", RawObject(encode(URL)), origin)
        except RpcError as error:
            return {"content": [], "structuredContent": {"refused": error.code}}
        return {"content": [], "structuredContent": {"said": said["action"]}}

    server = ScriptedServer(["do"], answer)
    return server


async def called(client):
    async def accept(params):
        return {"action": "accept"}

    client.peer.others["elicitation/create"] = accept
    await client.initialize(client.capabilities)
    return (await client.call("a__do"))["structuredContent"]


async def test_whoever_runs_the_gateway_is_asked():
    async with running({"a": logging_in()}) as made:
        client = Client(made, capabilities=ABLE)
        assert await called(client) == {"said": "accept"}
        ((_, asked),) = client.peer.asked
        assert asked["url"] == URL["url"]


@pytest.mark.attack("Logins", "as the holder of a key, log the gateway in with an account of one's own")
@pytest.mark.parametrize("scopes", [frozenset(), frozenset({"write"})])
async def test_the_holder_of_a_key_is_not_asked_to_log_in_for_everybody(scopes):
    async with running({"a": logging_in()}) as made:
        client = Client(made, capabilities=ABLE, identity=Identity(principal="eve", access_key="k1", scopes=scopes))
        assert await called(client) == {"refused": NO_CLIENT}
        assert client.peer.asked == []


@pytest.mark.parametrize("able", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_a_client_that_opens_no_addresses_is_not_asked_to(able):
    async with running({"a": logging_in()}) as made:
        client = Client(made, capabilities=able)
        assert await called(client) == {"refused": NO_CLIENT}
        assert client.peer.asked == []


async def test_nobody_is_asked_about_what_no_client_wanted():
    server = logging_in()
    async with running({"a": server}) as made:
        client = Client(made, capabilities=ABLE)
        await client.initialize(ABLE)
        with pytest.raises(RpcError):
            await server.handler.request("elicitation/create", RawObject(encode(URL)), Origin(None, server.link))
        assert client.peer.asked == []
