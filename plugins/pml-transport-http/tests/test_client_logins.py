"""Logins with OAuth 2.1, against a real authorization server and a real MCP server."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
import types as modules
import urllib.error
import urllib.request
import webbrowser
from types import SimpleNamespace

import pytest
from mcp.server import Server
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, TokenVerifier, construct_redirect_uri
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import ListToolsResult
from protected_server import Kept
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from pml_hookspecs import Endpoint, TransportError
from pml_testing.fakes import FakeServices
from pml_testing.transport_ends import SOON_S
from pml_transport_http import Http, Settings
from pml_transport_http.logins.keys import KeyringEntry, LoginKeys
from pml_transport_http.logins.principal_logins import SHARED, PrincipalLogins

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::DeprecationWarning:starlette")]

PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Authority:
    """An authorization server whose users agree to everything."""

    def __init__(self):
        self.clients, self.codes, self.refreshes, self.accesses = {}, {}, {}, {}
        self.asked = []
        self.lifetime_s = 3600
        self.denies = False

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        self.asked.append(params)
        back, state = str(params.redirect_uri), params.state
        if self.denies:
            return construct_redirect_uri(back, error="access_denied", error_description="not you", state=state)
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(back, code=code, state=state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    def issue(self, client_id, scopes, resource):
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.accesses[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, resource=resource)
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.lifetime_s, scope=" ".join(scopes)
        )

    async def load_refresh_token(self, client, refresh_token):
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refreshes[refresh_token.token]
        return self.issue(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token):
        return self.accesses.get(token)

    async def revoke_token(self, token):
        raise NotImplementedError


class Verifier(TokenVerifier):
    def __init__(self, authority):
        self.authority = authority

    async def verify_token(self, token):
        return self.authority.accesses.get(token)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def list_tools(ctx, params):
    return ListToolsResult(tools=[])


@pytest.fixture
async def site(web, monkeypatch, tmp_path):
    """An MCP server that wants a login, an authorization server on another port, and a browser."""
    authority, port = Authority(), free_port()
    issuer = f"http://127.0.0.1:{port}"
    options = ClientRegistrationOptions(enabled=True, valid_scopes=["user", "admin"], default_scopes=["user"])
    routes = create_auth_routes(authority, AnyHttpUrl(issuer + "/"), client_registration_options=options)
    await web.serve(Starlette(routes=routes), port=port)
    mine = free_port()
    app = Server("guarded", version="1", on_list_tools=list_tools).streamable_http_app(
        auth=AuthSettings(
            issuer_url=issuer + "/",
            resource_server_url=f"http://127.0.0.1:{mine}/mcp",
            required_scopes=["user"],
            validate_token_resource=True,
        ),
        token_verifier=Verifier(authority),
    )
    url = await web.serve(app, port=mine, lifespan="on")

    def browse(address):
        opened.append(address)
        try:
            urllib.request.urlopen(address, timeout=SOON_S).close()
        except urllib.error.HTTPError as error:
            error.close()

    opened = []
    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    kept = Kept()
    services = FakeServices(store=kept)
    return SimpleNamespace(authority=authority, url=url, opened=opened, kept=kept, services=services, issuer=issuer)


async def log_in(site, **oauth):
    shown = []
    transport = Http(Settings(), site.services)
    endpoint = Endpoint(name="git", address=site.url, options={"oauth": oauth} if oauth else {})
    async with asyncio.timeout(4 * SOON_S):
        await transport.log_in(endpoint, show=shown.append)
    return shown


async def use(site, connect, **options):
    async with connect(site.url, services=site.services, **options) as link:
        await link.request("initialize", PARAMS, timeout_s=SOON_S)
        link.notify("notifications/initialized", {})
        answers = await asyncio.gather(*(link.request("tools/list", {}, timeout_s=SOON_S) for _ in range(5)))
        assert all(answer["tools"] == [] for answer in answers)


async def test_without_a_login_one_is_asked_for_and_no_browser_opened(site, connect):
    with pytest.raises(TransportError, match="run: pml auth login git") as caught:
        await use(site, connect)
    assert caught.value.retryable  # so that the gateway tries again, and finds a login that is made meanwhile
    assert site.opened == []


async def test_a_login_opens_the_browser_and_is_used_from_then_on(site, connect):
    shown = await log_in(site)
    assert site.opened[0] in shown[0]
    assert site.opened[0].startswith(site.issuer + "/authorize?")
    (asked,) = site.authority.asked
    assert asked.code_challenge
    assert str(asked.redirect_uri).startswith("http://127.0.0.1:")
    await use(site, connect)
    assert len(site.opened) == 1
    token = (await site.kept.login())["tokens"]["access_token"]
    assert token in site.authority.accesses
    assert token not in str(site.services.log.lines)


async def test_the_login_of_another_gateway_is_found_without_a_restart(site, connect):
    async with connect(site.url, services=site.services) as link:
        with pytest.raises(TransportError, match="pml auth login"):
            await link.request("initialize", PARAMS, timeout_s=SOON_S)
        await log_in(site)
        await link.request("initialize", PARAMS, timeout_s=SOON_S)


@pytest.mark.parametrize("known", [True, False], ids=["expired", "revoked"])
async def test_a_token_is_renewed_unattended_also_after_a_restart(site, connect, known):
    await log_in(site)
    before = await site.kept.login()
    site.authority.accesses.clear()
    if known:
        kept = {**before, "expires_at": time.time() - 1}
        await site.kept.logins.put("git", json.dumps(kept))
    await use(site, connect)
    after = await site.kept.login()
    assert after["tokens"]["access_token"] in site.authority.accesses
    assert after["tokens"]["refresh_token"] != before["tokens"]["refresh_token"]
    assert after["expires_at"] > time.time()
    assert len(site.authority.refreshes) == 1
    assert len(site.opened) == 1


async def test_a_login_that_cannot_be_renewed_is_asked_for_again(site, connect):
    await log_in(site)
    site.authority.accesses.clear()
    site.authority.refreshes.clear()
    for _ in range(2):
        with pytest.raises(TransportError, match="run: pml auth login git"):
            await use(site, connect)
    assert len(site.opened) == 1
    await log_in(site)
    await use(site, connect)


async def test_an_authority_that_cannot_be_reached_is_another_matter(site, connect, web):
    await log_in(site)
    site.authority.accesses.clear()
    await web.stop(site.issuer)
    with pytest.raises(TransportError, match="cannot be renewed") as caught:
        await use(site, connect)
    assert caught.value.retryable


async def test_a_second_login_uses_the_same_registration(site, connect):
    await log_in(site)
    await log_in(site)
    assert len(site.authority.clients) == 1
    assert len(site.authority.asked) == 2


async def test_a_login_that_is_refused_says_so_and_keeps_nothing(site, connect):
    site.authority.denies = True
    with pytest.raises(TransportError, match="refused the login: not you"):
        await log_in(site)
    assert site.kept.kept == {}


async def test_logging_out_forgets(site, connect):
    await log_in(site)
    await Http(Settings(), site.services).log_out(Endpoint(name="git", address=site.url))
    assert site.kept.kept == {}
    with pytest.raises(TransportError, match="run: pml auth login git"):
        await use(site, connect)


async def test_a_client_that_was_registered_by_hand_and_its_scopes_are_used(site, connect):
    port = free_port()
    site.authority.clients["by-hand"] = OAuthClientInformationFull(
        client_id="by-hand",
        client_secret="s3cret",
        redirect_uris=[f"http://127.0.0.1:{port}/callback"],
        scope="user admin",
        token_endpoint_auth_method="client_secret_post",
    )
    oauth = {"client_id": "by-hand", "client_secret": "s3cret", "redirect_port": port, "scopes": ["user", "admin"]}
    await log_in(site, **oauth)
    assert set(site.authority.clients) == {"by-hand"}
    assert site.authority.asked[0].scopes == ["user", "admin"]
    await use(site, connect, oauth=oauth)


async def test_a_fixed_port_that_is_taken_is_named(site):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TransportError, match=f"port {port} .oauth.redirect_port."):
            await log_in(site, redirect_port=port)


async def test_what_comes_to_the_listener_by_chance_is_no_answer(site, connect, monkeypatch):
    def browse(address):
        back = str(site.back)
        unused.append(socket.create_connection(("127.0.0.1", port), timeout=SOON_S))
        for path in ("/favicon.ico", "/callback", "/callback?code=forged&state=guessed"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(back + path, timeout=SOON_S)
        urllib.request.urlopen(address, timeout=SOON_S).close()

    unused = []
    site.back = f"http://127.0.0.1:{(port := free_port())}"
    monkeypatch.setattr(webbrowser, "open", browse)
    await log_in(site, redirect_port=port)
    unused[0].close()
    await use(site, connect)


async def test_a_server_that_wants_no_login_says_so(raw, connect, site):
    async def reply(request, stream):
        await stream.result(request, {})

    site.url = (await raw(reply)).url
    with pytest.raises(TransportError, match="does not ask for a login"):
        await log_in(site)


async def test_tokens_go_to_no_other_host(site, connect, raw):
    async def reply(request, stream):
        await stream.result(request, {})

    await log_in(site)
    server = await raw(reply)
    async with connect(server.url, services=site.services) as link:
        await link.request("m", {}, timeout_s=SOON_S)
    assert "authorization" not in server.requests[0].headers


async def test_a_store_in_trouble_does_not_stop_servers_without_a_login(site, connect, raw):
    async def reply(request, stream):
        await stream.result(request, {})

    async def trouble(owner, name):
        raise OSError("disk full")

    site.kept.documents.get = trouble
    async with connect((await raw(reply)).url, services=site.services) as link:
        assert await link.request("m", {}, timeout_s=SOON_S) == {}
    assert any(event == "http.logins_unreadable" for _, event, _ in site.services.log.lines)


async def test_without_a_store_nobody_is_logged_in(connect, raw):
    async def reply(request, stream):
        await stream.result(request, {})

    async with connect((await raw(reply)).url, services=FakeServices()) as link:
        assert await link.request("m", {}, timeout_s=SOON_S) == {}


async def test_configured_credentials_come_before_a_login(site, connect):
    await log_in(site)
    with pytest.raises(TransportError, match="refuses the credentials in its headers"):
        await use(site, connect, bearer="mine")
    with pytest.raises(NotImplementedError, match="in the configuration"):
        await Http(Settings(), site.services).log_in(
            Endpoint(name="git", address=site.url, options={"oauth": False}), show=print
        )


class Keyring:
    """A keyring as the package of that name gives it."""

    priority = 5

    def __init__(self):
        self.kept, self.locked = {}, False

    def get_password(self, service, name):
        return self.kept.get((service, name))

    def set_password(self, service, name, value):
        if self.locked:
            raise RuntimeError("locked")
        self.kept[service, name] = value

    def delete_password(self, service, name):
        del self.kept[service, name]


@pytest.fixture
def keyring(monkeypatch):
    backend, module = Keyring(), modules.ModuleType("keyring")
    module.get_keyring = lambda: backend
    monkeypatch.setitem(__import__("sys").modules, "keyring", module)
    return backend


def kept_text(site, keyring, folder):
    """All that is kept, as it is kept."""
    files = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    return str(([vars(one) for one in site.kept.kept.values()], site.kept.plain, keyring.kept, files))


@pytest.mark.parametrize("why", ["keyring", "none", "unwanted"])
async def test_a_login_is_kept_encrypted_with_a_key_in_the_keyring_or_in_a_file(site, connect, keyring, tmp_path, why):
    keyring.priority = 0 if why == "none" else 5
    settings = Settings(keyring=why != "unwanted")
    await Http(settings, site.services).log_in(Endpoint(name="git", address=site.url), show=lambda _text: None)
    assert (len(site.kept.kept), len(keyring.kept)) == (1, 1 if why == "keyring" else 0)
    assert (tmp_path / "login.key").exists() is (why != "keyring")
    kept = kept_text(site, keyring, tmp_path)
    assert "sealed" in kept
    assert not [token for token in (*site.authority.accesses, *site.authority.refreshes) if token in kept]
    await use(site, connect) if why != "unwanted" else None
    await Http(settings, site.services).log_out(Endpoint(name="git", address=site.url))
    assert site.kept.kept == {}


async def test_with_a_locked_keyring_a_login_says_what_to_do_and_keeps_nothing(site, keyring):
    keyring.locked = True
    with pytest.raises(TransportError, match=r"cannot be used \(locked\); unlock it, or name a file as key_file"):
        await log_in(site)
    assert (site.kept.kept, keyring.kept) == ({}, {})


@pytest.mark.parametrize("place", ["store", "keyring"])
async def test_a_login_that_a_version_before_kept_as_it_was_is_used_and_encrypted(
    site, connect, keyring, tmp_path, place
):
    await log_in(site)
    text = json.dumps(await opened(site, keyring))
    site.kept.kept.clear()
    if place == "store":
        site.kept.plain["http", "git"] = text
    else:
        keyring.kept["pml-http", "git"] = text
    await use(site, connect)
    assert (len(site.kept.kept), site.kept.plain, [name for _, name in keyring.kept]) == (1, {}, ["login.key"])
    assert not [token for token in site.authority.accesses if token in kept_text(site, keyring, tmp_path)]
    await use(site, connect)
    assert len(site.opened) == 1


async def opened(site, keyring):
    keys = LoginKeys(KeyringEntry(keyring))
    return json.loads(await PrincipalLogins(site.kept.documents, keys, SHARED).get("git"))


async def test_a_login_before_is_used_though_it_cannot_be_encrypted_yet(site, connect, keyring):
    await log_in(site)
    site.kept.plain["http", "git"] = json.dumps(await opened(site, keyring))
    site.kept.kept.clear()
    keyring.kept.clear()
    keyring.locked = True
    await use(site, connect)
    assert (site.kept.kept, len(site.kept.plain)) == ({}, 1)
    assert any(event == "http.login_not_encrypted" for _, event, _ in site.services.log.lines)


async def test_a_login_of_another_key_says_what_to_do_and_either_helps(site, connect, tmp_path):
    await log_in(site)
    right = (tmp_path / "login.key").read_bytes()
    (tmp_path / "login.key").unlink()
    with pytest.raises(
        TransportError, match=r"login.key; put that key back, or log in anew with pml auth login"
    ) as caught:
        await use(site, connect)
    assert caught.value.retryable
    (tmp_path / "login.key").write_bytes(right)
    (tmp_path / "login.key").chmod(0o600)
    await use(site, connect)
    (tmp_path / "login.key").unlink()
    await log_in(site)
    await use(site, connect)
    (tmp_path / "login.key").unlink()
    await Http(Settings(), site.services).log_out(Endpoint(name="git", address=site.url))
    assert site.kept.kept == {}


async def test_a_new_key_is_for_shared_logins_too(site, connect, tmp_path):
    await log_in(site)
    before = (tmp_path / "login.key").read_text()
    for _ in range(3):
        assert await Http(Settings(), site.services).rotate() == 1
    assert before not in (tmp_path / "login.key").read_text()
    await use(site, connect)
    assert await Http(Settings(), site.services).logins(Endpoint(name="git", address=site.url)) == []
