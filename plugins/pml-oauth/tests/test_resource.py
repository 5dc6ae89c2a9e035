"""What clients are told about where tokens come from, and what theirs are for."""

from __future__ import annotations

import pytest
from signer import GATEWAY, ISSUER

from pml_hookspecs import Identity, UnauthenticatedError
from pml_kit.offers import INDIRECT_CALLS, MissingScopeError
from pml_oauth.settings import Rights
from pml_testing.fakes import FakeCatalog, entry

pytestmark = pytest.mark.anyio
RIGHTS = {"read": Rights(allow=("files:read",)), "write": Rights(allow=("files:write",))}


@pytest.mark.parametrize("path", ["", "/mcp", "/mcp/research"])
def test_each_endpoint_is_a_resource(path, made):
    about = made(scopes=("read",)).resource.metadata(path)
    assert about == {
        "resource": GATEWAY + path,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["read"],
    }


@pytest.mark.parametrize(
    "path", ["/api", "/mcp/a/b", "/mcpx", '/mcp/"', "/mcp/a\r\nb", "/mcp/é", "/mcp/?a", "//mcp", "mcp"]
)
def test_nothing_else_is(path, made):
    resource = made().resource
    assert resource.metadata(path) is None
    assert resource.challenge(path) == {"resource_metadata": f"{GATEWAY}/.well-known/oauth-protected-resource"}


def test_scopes_are_those_that_rights_follow_from(made):
    assert made(rights=RIGHTS).resource.metadata("")["scopes_supported"] == ["read", "write"]
    assert "scopes_supported" not in made(rights=RIGHTS, claim="groups").resource.metadata("")
    said = made(rights=RIGHTS, scopes=("openid", "read")).resource
    assert said.metadata("")["scopes_supported"] == ["openid", "read", "write"]
    assert said.challenge("/mcp/") == {
        "resource_metadata": f"{GATEWAY}/.well-known/oauth-protected-resource/mcp",
        "scope": "openid read",
    }


@pytest.mark.parametrize(
    ("audience", "fits"),
    [
        (f"{GATEWAY}/mcp", ["/mcp", "/mcp/", "/api/executions", "/console/"]),
        (f"{GATEWAY}/mcp/", ["/mcp"]),
        (f"{GATEWAY}/mcp/research", ["/mcp/research"]),
        (GATEWAY, ["/mcp", "/mcp/research", "/api/executions"]),
        (f"{GATEWAY}/", ["/mcp", "/mcp/research"]),
        ("api://gateway", ["/mcp", "/mcp/research"]),
        (["https://other.example", f"{GATEWAY}/mcp"], ["/mcp"]),
    ],
)
async def test_a_token_is_for_the_endpoint_that_it_names(audience, fits, made, signer):
    identities = made(audiences=("api://gateway",))
    identity = await identities.identify(signer.token(aud=audience))
    for path in ("/mcp", "/mcp/", "/mcp/research", "/mcp/rehearsal", "/api/executions", "/console/"):
        everywhere = audience in (GATEWAY, f"{GATEWAY}/", "api://gateway")
        if path in fits or everywhere or (fits[0] == "/mcp" and not path.startswith("/mcp/r")):
            identities.resource.check(identity, path)
        else:
            with pytest.raises(UnauthenticatedError, match="not for"):
                identities.resource.check(identity, path)


async def test_a_login_that_nothing_is_allowed_to_is_told_what_to_ask_for(made, signer):
    identities = made(scopes=("read",))
    with pytest.raises(MissingScopeError) as told:
        identities.resource.check(await identities.identify(signer.token(scope="other")), "/mcp")
    assert told.value.scopes == ("read",)
    identities = made(claim="groups", scopes=("openid",))
    with pytest.raises(MissingScopeError) as told:
        identities.resource.check(await identities.identify(signer.token()), "/mcp")
    assert told.value.scopes == (), "no scope would give a group"


async def test_keys_are_nothing_to_it(made):
    resource = made().resource
    resource.check(Identity(principal="ada", access_key="abcdefghabcdefgh"), "/mcp")
    resource.check(Identity(principal="ada"), "/mcp")
    resource.check_call(Identity(principal="ada", allow=()), {"name": "files:write"})
    with pytest.raises(UnauthenticatedError):
        resource.check(Identity(principal="ada", access_key="oauth-unknown"), "/mcp")


class Held(FakeCatalog):
    """A catalog whose filter goes by names alone."""

    def allows(self, entry, session):
        return session.allow is None or entry.id in session.allow


@pytest.fixture
def calling(made, signer, services):
    services.catalog = Held([entry("files:read"), entry("files:write"), entry("files:erase")])
    services.offer(INDIRECT_CALLS, lambda session, effects: f"call_tool_{effects}")

    async def calling(params, scope="read", **settings):
        identities = made(**{"rights": RIGHTS, **settings})
        identity = await identities.identify(signer.token(scope=scope))
        identities.resource.check_call(identity, params)

    return calling


@pytest.mark.parametrize(
    "params",
    [{"name": "files:write"}, {"name": "call_tool_write", "arguments": {"name": "files:write", "arguments": {}}}],
)
async def test_a_tool_that_another_scope_gives_says_which(params, calling):
    with pytest.raises(MissingScopeError) as told:
        await calling(params)
    assert told.value.scopes == ("read", "write"), "what it has, too, so that the next token does both"
    await calling(params, scope="read write")
    await calling(params, claim="sub")


@pytest.mark.parametrize(
    "params",
    [
        {"name": "files:read"},
        {"name": "files:erase"},
        {"name": "files:nothing"},
        {"name": 7},
        {},
        {"name": "call_tool_write"},
        {"name": "call_tool_write", "arguments": "x"},
        {"name": "call_tool_write", "arguments": {"name": ["files:write"]}},
    ],
)
async def test_what_no_scope_gives_is_answered_as_always(params, calling):
    await calling(params)
