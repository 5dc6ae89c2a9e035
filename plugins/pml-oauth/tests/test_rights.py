"""What claims stand for, and how long."""

from __future__ import annotations

import time

import pytest
from signer import GATEWAY, ISSUER

from pml_hookspecs import Session, UnauthenticatedError
from pml_oauth.settings import Rights, Settings

pytestmark = pytest.mark.anyio
RIGHTS = {
    "read": Rights(allow=("files:read_*",), deny=("*:secret*",), intent="look"),
    "write": Rights(allow=("files:*",), scopes=("approve",), tools_exposure="hybrid", execution_mode="dry_run"),
    "trial": Rights(allow=("crm:*",), dry_run_only=True, tools_exposure="full_proxy"),
}


def session(identity):
    return Session(key="k", **identity.members())


async def test_what_is_not_mapped_allows_nothing(made, signer):
    for claims in ({"scope": "admin"}, {"scope": ""}, {"scope": None}, {"scope": {"read": 1}}, {"scope": 7}):
        identity = await made().identify(signer.token(**claims))
        assert (identity.allow, identity.deny, identity.scopes) == ((), ("*",), frozenset())


async def test_several_values_add_up_and_none_takes_back_what_another_denies(made, signer):
    identity = await made(rights=RIGHTS).identify(signer.token(scope="trial write openid read"))
    assert identity.allow == ("files:read_*", "files:*", "crm:*")
    assert (identity.deny, identity.scopes, identity.dry_run_only) == (("*:secret*",), {"approve"}, True)
    assert (identity.intent, identity.mode, identity.execution_mode) == ("look", "hybrid", "dry_run")


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        ("groups", {"groups": ["read", 7]}),
        ("realm_access.roles", {"realm_access": {"roles": ["read"]}}),
        ("https://a.example/roles", {"https://a.example/roles": ["read"]}),
        ("scp", {"scp": "openid read"}),
    ],
)
async def test_rights_follow_from_the_claim_that_is_named(claim, claims, made, signer):
    identity = await made(claim=claim).identify(signer.token(**{"scope": "write", **claims}))
    assert identity.allow == ("files:read_*",)


async def test_another_claim_can_say_who_it_is(made, signer):
    assert (
        await made(principal_claim="email").identify(signer.token(email="ada@a.example"))
    ).principal == "ada@a.example"


async def test_a_login_has_one_id_over_its_tokens_and_another_for_each_difference(made, signer):
    identities = made(rights=RIGHTS)
    ids = {
        (await identities.identify(signer.token(**claims))).access_key
        for claims in (
            {},
            {"jti": "another", "exp": time.time() + 900},
            {"sub": "bob"},
            {"client_id": "d"},
            {"scope": "read write"},
            {"aud": GATEWAY},
        )
    }
    assert len(ids) == 5


async def test_a_login_counts_as_long_as_its_newest_token(made, signer, monkeypatch):
    identities = made(leeway_s=0.0)
    newer = signer.token(exp=time.time() + 600)
    login = session(await identities.identify(newer))
    await identities.identify(signer.token(exp=time.time() + 60))
    assert identities._tokens[login.access_key][1] == newer
    assert (await identities.current(login)).allow == ("files:read_*",)
    ended = session(await identities.identify(signer.token(sub="bob", exp=time.time() + 60)))
    identities._tokens[ended.access_key] = (0.0, signer.token(sub="bob", exp=time.time() - 1))
    with pytest.raises(UnauthenticatedError, match="expired"):
        await identities.current(ended)


async def test_another_gateway_knows_the_login_by_the_store_until_it_ends(made, signer, services):
    login = session(await made().identify(signer.token()))
    other = made()
    assert (await other.current(login)).members() == {
        name: getattr(login, name) for name in login.__struct_fields__[:10]
    }
    assert (await made(rights={}).current(login)).deny == ("*",)
    with pytest.raises(UnauthenticatedError, match="another gateway"):
        await made(url="https://moved.example").current(login)
    with pytest.raises(UnauthenticatedError, match="another authorization server"):
        await made(issuer="https://moved.example").current(login)
    (document,) = (await services.store.documents.find("oauth.logins", limit=9)).items
    assert signer.token()[:20] not in str(document.value)
    services.store.documents.put_soon(
        "oauth.logins", login.access_key, {**document.value, "expires_at": time.time() - 60}
    )
    with pytest.raises(UnauthenticatedError, match="expired"):
        await made().current(login)
    with pytest.raises(UnauthenticatedError, match="no such login"):
        await made().current(Session(key="k", access_key="oauth-unknown"))


async def test_what_is_no_login_is_left_to_others(made):
    assert await made().current(Session(key="k", access_key="abcdefghabcdefgh")) is None
    assert await made().identify("pml_aaaaaaaaaaaaaaaa_x") is None
    assert await made().scope(Session(key="k"), results=True) is None
    assert await made(required=False).identify(None) is None
    with pytest.raises(UnauthenticatedError, match="needed"):
        await made().identify(None)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"url": ""}, "url has to be an address"),
        ({"url": "http://gateway.example"}, "https"),
        ({"url": f"{GATEWAY}/mcp"}, "no path"),
        ({"issuer": "http://login.example"}, "https"),
        ({"issuer": "login.example"}, "address"),
        ({"issuer": "https://me@login.example"}, "address"),
        ({"algorithms": ()}, "RS256"),
        ({"introspection": True}, "client_id"),
    ],
)
def test_settings_that_are_not_safe_are_refused(table, why):
    with pytest.raises(ValueError, match=why):
        Settings(**{"issuer": ISSUER, "url": GATEWAY, **table})


def test_this_machine_may_be_asked_without_https():
    assert Settings(issuer="http://127.0.0.1:9000/", url="http://localhost:8808").base == "http://localhost:8808"
