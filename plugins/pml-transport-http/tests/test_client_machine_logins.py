"""Logins for more than before, and logins without a human, against real authorization servers."""

from __future__ import annotations

import asyncio
import urllib.request
import webbrowser
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from protected_server import Authority, Kept, ProtectedServer

from pml_hookspecs import Endpoint, RpcError, TransportError
from pml_testing.fakes import FakeServices
from pml_testing.transport_ends import SOON_S, Recorder
from pml_transport_http import Http, Settings

pytestmark = pytest.mark.anyio
SECRET = "hunter2-hunter2"
BY_HAND = {"client_id": "by hand", "client_secret": SECRET}
CALL = {"name": "t", "arguments": {}}


class Stingy(dict):
    """Grants never more than to read."""

    def __setitem__(self, token, _scopes):
        super().__setitem__(token, {"read"})


def browse(address):
    urllib.request.urlopen(address, timeout=SOON_S).close()


class Human(Recorder):
    """Whoever runs the gateway, who agrees to log in or does not, or is not there."""

    def __init__(self, action="accept"):
        super().__init__()
        self.action, self.asked = action, []

    async def request(self, method, params, origin):
        assert (method, params["mode"], origin.id) == ("elicitation/create", "url", None)
        if self.action == "away":
            raise RpcError(-31999, "nobody is there")
        self.asked.append(params["url"])
        if self.action == "accept":
            self.browsing = asyncio.ensure_future(asyncio.to_thread(browse, params["url"]))
        return {"action": self.action}


@pytest.fixture
async def site(web, monkeypatch, tmp_path):
    """The server, the authorization server that it names, another one, and a browser for the command."""
    monkeypatch.setattr(webbrowser, "open", browse)
    first, other = await Authority("first").start(web), await Authority("other").start(web)
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    kept = Kept()
    services = FakeServices(store=kept)
    server = await ProtectedServer(first).start(web)
    return SimpleNamespace(server=server, first=first, other=other, kept=kept, services=services)


async def log_in(site, **oauth):
    endpoint = Endpoint(name="git", address=site.server.url, options={"oauth": oauth} if oauth else {})
    async with asyncio.timeout(4 * SOON_S):
        await Http(Settings(), site.services).log_in(endpoint, show=lambda _text: None)


async def ask(site, connect, *methods, handler=None, **oauth):
    options = {"oauth": oauth} if oauth else {}
    async with connect(site.server.url, services=site.services, handler=handler, **options) as link:
        return [await link.request(method, CALL, timeout_s=SOON_S) for method in methods]


@pytest.mark.parametrize(
    ("offered", "how"),
    [
        (["client_secret_basic"], "basic"),
        (["client_secret_post"], "post"),
        (["client_secret_basic", "client_secret_post"], "post"),
        (None, "basic"),
    ],
)
async def test_a_client_registered_by_hand_presents_itself_as_the_metadata_says(site, connect, offered, how):
    if offered is not None:
        site.first.more["token_endpoint_auth_methods_supported"] = offered
    await log_in(site, **BY_HAND)
    assert site.first.clients == [("by hand", how, SECRET)]
    assert (await site.kept.login())["client"]["token_endpoint_auth_method"] == f"client_secret_{how}"


async def test_the_configuration_may_say_how_it_presents_itself(site):
    await log_in(site, client_auth="basic", **BY_HAND)
    assert site.first.clients == [("by hand", "basic", SECRET)]


async def test_a_client_is_registered_anew_where_the_server_names_another_authorization_server(site, connect):
    await log_in(site)
    site.server.authority = site.other
    with pytest.raises(TransportError, match="run: pml auth login git"):
        await ask(site, connect, "tools/list")
    await log_in(site)
    assert [len(site.first.registered), len(site.other.registered)] == [1, 1]
    assert {client for client, _, _ in site.other.clients} == {"other-0"}
    await ask(site, connect, "tools/list")


async def test_what_cannot_be_renewed_costs_the_time_of_no_attempt(site, connect, monkeypatch):
    def imported():
        raise AssertionError("the SDK is of no use")

    await log_in(site)
    site.first.granted.clear()
    monkeypatch.setattr("pml_transport_http.credentials._import_oauth", imported)
    with pytest.raises(TransportError, match="run: pml auth login git"):
        await ask(site, connect, "tools/list")


async def test_a_login_for_more_is_asked_for_and_the_request_goes_on(site, connect):
    await log_in(site)
    human = Human()
    read, wrote = await ask(site, connect, "tools/list", "tools/call", handler=human)
    assert [read["scopes"], wrote["scopes"]] == [["read"], ["read", "write"]]
    assert len(human.asked) == 1
    assert [asked["scope"] for asked in site.first.authorized] == ["read", "read write"]
    assert len(site.first.registered) == 1
    (again,) = await ask(site, connect, "tools/call", handler=human)
    assert again["scopes"] == ["read", "write"]
    assert len(human.asked) == 1


async def test_requests_that_need_more_at_once_ask_once(site, connect):
    await log_in(site)
    human = Human()
    async with connect(site.server.url, services=site.services, handler=human) as link:
        calls = [link.request("tools/call", CALL, timeout_s=2 * SOON_S) for _ in range(5)]
        assert {tuple(answer["scopes"]) for answer in await asyncio.gather(*calls)} == {("read", "write")}
    assert len(human.asked) == 1


async def test_a_human_may_take_longer_than_the_request_has(site, connect):
    class Slow(Human):
        async def request(self, method, params, origin):
            self.asked.append(params["url"])
            return {"action": "accept"}

    await log_in(site)
    human = Slow()
    async with connect(site.server.url, services=site.services, handler=human) as link:
        asked = asyncio.ensure_future(link.request("tools/call", CALL, timeout_s=SOON_S))
        async with asyncio.timeout(SOON_S):
            while not human.asked:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        asked.cancel()
        again = asyncio.ensure_future(link.request("tools/call", CALL, timeout_s=SOON_S))
        await asyncio.to_thread(browse, human.asked[0])
        assert (await again)["scopes"] == ["read", "write"]
    assert len(human.asked) == 1


@pytest.mark.parametrize("action", ["away", "decline", "cancel"])
async def test_where_nobody_agrees_the_message_has_the_command_that_asks_for_more(site, connect, action):
    await log_in(site)
    with pytest.raises(TransportError, match="wants more than its login allows: write; run: pml auth login git"):
        await ask(site, connect, "tools/call", handler=Human(action))
    await log_in(site)
    assert site.first.authorized[-1]["scope"] == "read write"
    (wrote,) = await ask(site, connect, "tools/call")
    assert wrote["scopes"] == ["read", "write"]


async def test_a_login_for_more_that_is_not_enough_is_not_tried_again(site, connect):
    await log_in(site)
    human = Human()
    site.first.granted = Stingy(site.first.granted)
    with pytest.raises(TransportError, match="wants more than its login allows"):
        await ask(site, connect, "tools/call", handler=human)
    assert len(human.asked) == 1


def machine(site, **more):
    return {"grant": "client_credentials", "client_id": "robot", "issuer": site.first.url, **more}


@pytest.fixture
def key():
    return ec.generate_private_key(ec.SECP256R1())


def pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize("how", ["basic", "post"])
async def test_a_machine_logs_in_with_its_secret_unasked(site, connect, how):
    oauth = machine(site, client_secret=SECRET, client_auth=how)
    read, wrote = await ask(site, connect, "tools/list", "tools/call", **oauth)
    assert [read["scopes"], wrote["scopes"]] == [["read"], ["read", "write"]]
    assert site.first.clients == [("robot", how, SECRET)] * 2
    assert {form["grant_type"] for form, _ in site.first.asked} == {"client_credentials"}
    assert site.first.authorized == site.first.registered == []
    logged = str(site.services.log.lines)
    assert SECRET not in logged
    assert not any(token in logged for token in site.first.granted)


async def test_a_machine_logs_in_with_its_key(site, connect, key):
    await ask(site, connect, "tools/list", **machine(site, private_key=pem(key), signing_algorithm="ES256"))
    ((form, _),) = site.first.asked
    said = jwt.decode(form["client_assertion"], key.public_key(), algorithms=["ES256"], audience=site.first.url)
    assert (said["iss"], said["sub"]) == ("robot", "robot")


async def test_a_machine_gets_another_token_when_the_server_refuses_the_one_it_has(site, connect):
    oauth = machine(site, client_secret=SECRET)
    await ask(site, connect, "tools/list", **oauth)
    await ask(site, connect, "tools/list", **oauth)
    assert len(site.first.asked) == 1
    site.first.granted.clear()
    await ask(site, connect, "tools/list", **oauth)
    assert len(site.first.asked) == 2


async def test_the_token_of_another_machine_is_not_used(site, connect):
    await ask(site, connect, "tools/list", **machine(site, client_secret=SECRET))
    await ask(site, connect, "tools/list", **{**machine(site, client_secret=SECRET), "client_id": "other robot"})
    assert [client for client, _, _ in site.first.clients] == ["robot", "other robot"]


@pytest.mark.parametrize(
    ("oauth", "message", "retryable"),
    [
        ({"client_secret": SECRET}, "no token for client_id 'robot' from http.*: .*invalid_client", True),
        ({"private_key": "no key"}, "no token for client_id 'robot' from http.*: InvalidKeyError", False),
    ],
)
async def test_a_machine_that_gets_no_token_says_why(site, connect, oauth, message, retryable):
    site.first.refuses = "invalid_client"
    with pytest.raises(TransportError, match=message) as caught:
        await ask(site, connect, "tools/list", **machine(site, **oauth))
    assert caught.value.retryable is retryable
    assert "pml auth login" not in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_nobody_logs_in_for_a_machine(site):
    with pytest.raises(NotImplementedError, match="in the configuration"):
        await log_in(site, **machine(site, client_secret=SECRET))


@pytest.mark.attack("Logins", "as a server, name an authorization server of one's own, to be sent the credentials")
@pytest.mark.parametrize("human", [True, False])
async def test_a_server_cannot_have_credentials_sent_to_an_authorization_server_of_its_choice(site, connect, human):
    site.server.authority = site.other
    by_hand, robot = {"issuer": site.first.url, **BY_HAND}, machine(site, client_secret=SECRET)
    attempt = log_in(site, **by_hand) if human else ask(site, connect, "tools/list", **robot)
    with pytest.raises(TransportError, match=site.first.url):
        await attempt
    assert site.other.asked == []


@pytest.fixture
async def idp(web):
    return await Authority("idp").start(web)


async def test_an_identity_provider_vouches_for_the_user(site, connect, idp):
    provider = {"token_url": f"{idp.url}/token", "client_id": "enterprise", "id_token": "who-it-is"}
    oauth = {**machine(site, client_secret=SECRET, idp=provider), "grant": "identity_assertion"}
    await ask(site, connect, "tools/list", scopes=["read"], **oauth)
    ((exchanged, _),), ((form, _),) = idp.asked, site.first.asked
    assert (exchanged["subject_token"], exchanged["client_id"]) == ("who-it-is", "enterprise")
    assert (exchanged["audience"], exchanged["resource"]) == (site.first.url, site.server.url)
    assert exchanged["requested_token_type"] == "urn:ietf:params:oauth:token-type:id-jag"
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert form["assertion"] in idp.granted
    assert site.first.clients == [("robot", "basic", SECRET)]


async def test_an_identity_provider_that_refuses_is_named(site, connect, idp):
    idp.refuses = "invalid_grant"
    provider = {"token_url": f"{idp.url}/token", "client_id": "enterprise", "id_token": "who-it-is"}
    oauth = {**machine(site, client_secret=SECRET, idp=provider), "grant": "identity_assertion"}
    with pytest.raises(TransportError, match=r"refuses the id_token \(HTTP status 400\): invalid_grant") as caught:
        await ask(site, connect, "tools/list", **oauth)
    assert "who-it-is" not in str(caught.value)
    assert site.first.asked == []
