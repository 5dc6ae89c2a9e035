"""Who is let in: Host, Origin, bearer tokens, and addresses that others can reach."""

from __future__ import annotations

import pytest
from listening import Script, as_lines, listening, wire

from pml_hookspecs import Endpoint, TransportError
from pml_transport_http import Http, Settings
from pml_transport_http.server.gateways.peers import Peers, reachable_at
from pml_transport_http.server.http import HttpError
from pml_transport_http.server.security import Guard, check_binding, is_loopback
from pml_transport_http.settings import Key

pytestmark = pytest.mark.anyio


def is_let_in(guard, host, origin=None):
    headers = {b"host": host.encode()} | ({} if origin is None else {b"origin": origin.encode()})
    try:
        guard.check_place(headers, headers.items())
    except HttpError:
        return False
    return True


@pytest.mark.parametrize("host", ["localhost:{}", "127.0.0.1:{}", "[::1]:{}", "LOCALHOST:{}"])
async def test_this_machine_is_let_in(services, host):
    async with listening(services) as listener, listener.client() as client:
        name = host.format(listener.port)
        response = await client.modern("tools/list", host=name, origin=f"http://{name}")
        assert response.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{}", "localhost", "127.0.0.1:1", "localhost:{}.evil.example", "127.0.0.1.evil:{}"],
)
async def test_a_name_that_was_made_to_lead_here_is_refused(services, host):
    async with listening(services) as listener, listener.client() as client:
        response = await client.modern("tools/list", host=host.format(listener.port))
        assert response.status_code == 403
        assert "allowed_hosts" in response.json()["error"]["message"]
        assert listener.peers == []


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:1", "https://localhost:{}", "http://localhost:{}.evil.example"],
)
async def test_foreign_web_pages_are_refused(services, origin):
    async with listening(services) as listener, listener.client() as client:
        response = await client.modern("tools/list", origin=origin.format(listener.port))
        assert response.status_code == 403
        assert "allowed_origins" in response.json()["error"]["message"]
        assert "access-control-allow-origin" not in response.headers


async def test_hosts_and_origins_can_be_allowed(services):
    allowed = {"allowed_hosts": ("gateway.example", "b.example:*"), "allowed_origins": ("https://app.example/",)}
    async with listening(services, **allowed) as listener, listener.client() as client:
        for host, status in [
            ("gateway.example", 200),
            ("b.example:99", 200),
            ("b.example", 200),
            ("gateway.example:1", 403),
        ]:
            assert (await client.modern("tools/list", host=host)).status_code == status, host
        response = await client.modern("tools/list", origin="https://app.example")
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert "mcp-session-id" in response.headers["access-control-expose-headers"]
        assert (await client.modern("tools/list", origin="https://app.example.evil")).status_code == 403


async def test_a_browser_may_ask_first(services):
    allowed = {"allowed_origins": ("https://app.example",), "tokens": {"ada": "secret"}}
    async with listening(services, **allowed) as listener, listener.client() as client:
        asks = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, mcp-name",
        }
        response = await client.http.options("/mcp", headers={"origin": "https://app.example", **asks})
        assert response.status_code == 204
        assert response.headers["access-control-allow-headers"] == "authorization, mcp-name"
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        foreign = await client.http.options("/mcp", headers={"origin": "https://evil.example", **asks})
        assert foreign.status_code == 403


async def test_tokens_tell_who_it_is(services):
    tokens = {"ada": "a-token", "bob": "b-token"}
    async with listening(services, tokens=tokens) as listener, listener.client() as client:
        missing = await client.modern("tools/list")
        assert (missing.status_code, missing.headers["www-authenticate"]) == (401, "Bearer")
        for wrong in ("Bearer nope", "Bearer", "Basic a-token", "Bearer a-token b-token", "Bearer \xff"):
            response = await client.modern("tools/list", authorization=wrong.encode("latin-1"))
            assert response.status_code == 401, wrong
            assert response.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        assert (await client.http.get("/mcp")).status_code == 401
        assert listener.peers == []
        for right in ("Bearer b-token", "bearer  b-token"):
            assert (await client.modern("tools/list", authorization=right)).status_code == 200
        assert [peer.principal for peer in listener.peers] == ["bob"]


KEYS = {
    "ada": "a-token",
    "ci": Key(token="c-token", principal="bot", tools_exposure="hybrid", intent="run tests", scopes=("read", "run")),
    "night": Key(token="n-token", principal="bot", execution_mode="dry_run"),
}


@pytest.mark.parametrize("revision", ["legacy", "modern"])
async def test_a_key_says_which_mode_hint_and_scopes_its_clients_have(services, revision):
    async with listening(services, tokens=KEYS) as listener:
        for token in ("a-token", "c-token", "n-token", "c-token"):
            async with listener.client(authorization=f"Bearer {token}") as client:
                if revision == "modern":
                    assert (await client.modern("tools/list")).status_code == 200
                else:
                    await client.initialize()
        ada, bot, night, *more = listener.peers
        assert (ada.principal, ada.mode, ada.intent, ada.scopes) == ("ada", "", "", frozenset())
        assert (bot.principal, bot.mode, bot.intent, bot.scopes) == ("bot", "hybrid", "run tests", {"read", "run"})
        assert (night.principal, night.mode, night.intent, night.scopes) == ("bot", "", "", frozenset())
        assert [peer.execution_mode for peer in (ada, bot, night)] == ["", "", "dry_run"]
        # Clients without a session share what serves them only where the key is the same.
        assert [peer.mode for peer in more] == ([] if revision == "modern" else ["hybrid"])


async def test_a_session_belongs_to_the_key_that_began_it(services):
    async with listening(services, tokens=KEYS) as listener:
        async with listener.client(authorization="Bearer c-token") as client:
            await client.initialize()
            session = client.session
        async with listener.client(authorization="Bearer n-token") as client:
            other = await client.http.get("/mcp", headers={**session, "accept": "text/event-stream"})
            assert other.status_code == 404


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ({"ada": Key(token="")}, "'ada'.*not empty"),
        ({"ada": Key(tools_exposure="hybrid")}, "'ada'.*not empty"),
        ({"ada": "same", "bob": Key(token="same")}, "'ada' and 'bob'.*same token"),
    ],
)
def test_a_key_without_a_token_of_its_own_is_refused(tokens, said):
    with pytest.raises(TransportError, match=said):
        check_binding("127.0.0.1", Settings(tokens=tokens))


@pytest.mark.parametrize("header", ["host", "origin", "authorization", "mcp-session-id"])
async def test_a_header_that_decides_comes_once(services, header):
    async with listening(services) as listener:
        values = {"host": f"localhost:{listener.port}", "origin": listener.url}
        lines = as_lines(values) + as_lines({header: values.get(header, "x")}) * (1 if header in values else 2)
        status, answer = await wire(listener.port, lines)
        assert (status, answer["error"]["message"]) == (400, f"The header {header} appears more than once")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "[::]", "gateway.example"])
async def test_an_address_that_others_can_reach_needs_tokens(services, host):
    endpoint = Endpoint(name="default", address=f"http://{host}:0")
    with pytest.raises(TransportError, match=r"set tokens in \[plugins.http\]") as caught:
        await Http(Settings(), services).serve(endpoint, lambda link, peer: Script(), started=lambda bound: None)
    assert not caught.value.retryable


async def test_with_tokens_others_can_be_served(services):
    async with (
        listening(services, address="http://0.0.0.0:0", tokens={"ada": "secret"}) as listener,
        listener.client(authorization="Bearer secret", host=f"192.0.2.1:{listener.port}") as client,
    ):
        assert (await client.modern("tools/list")).status_code == 200


@pytest.mark.parametrize("token", ["", "two words", "t\u00f6ken", "line\nbreak"])
def test_a_token_that_no_header_can_carry_is_refused(token):
    with pytest.raises(TransportError, match="the token of 'ada'"):
        check_binding("127.0.0.1", Settings(tokens={"ada": token}))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_this_machine_only(host, expected):
    assert is_loopback(host) is expected


def guard_at(host, port, **settings):
    return Guard(Settings(**settings), host, port, Peers(None, reachable_at(host, port), None))


def test_bound_to_all_addresses_it_goes_by_any_address_but_by_no_name():
    guard = guard_at("0.0.0.0", 8808, allowed_hosts=("gateway.example",))
    assert is_let_in(guard, "192.0.2.1:8808")
    assert is_let_in(guard, "[2001:db8::1]:8808")
    assert is_let_in(guard, "gateway.example")
    for host in ("evil.example:8808", "192.0.2.1:1", "192.0.2.1", "", "[", "192.0.2.1:x", "1.2.3.4.evil:8808"):
        assert not is_let_in(guard, host), host


def test_pages_that_are_served_here_may_call():
    guard = guard_at("192.0.2.1", 8808, allowed_hosts=("gateway.example",))
    assert is_let_in(guard, "gateway.example", "https://gateway.example")
    assert is_let_in(guard, "192.0.2.1:8808", "http://192.0.2.1:8808")
    assert not is_let_in(guard, "gateway.example", "https://192.0.2.1:8808")
    assert not is_let_in(guard, "gateway.example", "https://evil.example")


def test_at_port_80_the_port_goes_without_saying():
    guard = guard_at("127.0.0.1", 80)
    assert is_let_in(guard, "localhost")
    assert is_let_in(guard, "localhost:80")
