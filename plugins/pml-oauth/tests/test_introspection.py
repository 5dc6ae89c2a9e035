"""Tokens that the issuer is asked about."""

from __future__ import annotations

import time

import pytest
from signer import GATEWAY, ISSUER

from pml_hookspecs import Session, UnauthenticatedError
from pml_oauth import tokens
from pml_oauth.fetch import FetchError

pytestmark = pytest.mark.anyio
TOKEN = "opaque-and-secret"


def active(**more):
    usual = {"active": True, "sub": "ada", "aud": [f"{GATEWAY}/mcp"], "exp": time.time() + 600, "scope": "read other"}
    return {**usual, **more}


@pytest.fixture
def asking(made):
    return made(introspection=True, client_id="gateway", client_secret="gateways-secret")


async def test_what_it_says_counts_for_a_while(asking, said, monkeypatch):
    said.tokens[TOKEN] = active()
    for _ in range(5):
        identity = await asking.identify(TOKEN)
        assert (identity.principal, identity.allow) == ("ada", ("files:read_*",))
    assert said.forms == [({"token": TOKEN, "token_type_hint": "access_token"}, ("gateway", "gateways-secret"))]
    said.tokens[TOKEN] = {"active": False}
    monkeypatch.setattr(tokens, "ASKED_S", 0.0)
    with pytest.raises(UnauthenticatedError, match="any more"):
        await asking.identify(TOKEN)
    with pytest.raises(UnauthenticatedError):
        await asking.current(Session(key="k", access_key=identity.access_key))


@pytest.mark.parametrize(
    "answer",
    [
        {"active": False},
        active(active="true"),
        active(active=1),
        {},
        active(exp=time.time() - 60),
        active(exp=None),
        active(exp=float("nan")),
        active(nbf=time.time() + 600),
        active(iss="https://evil.example"),
        active(aud="https://other.example"),
        active(aud=None),
        active(sub=None),
        active(cnf={"jkt": "x"}),
    ],
)
async def test_what_does_not_count(answer, asking, said):
    said.tokens[TOKEN] = answer
    with pytest.raises(UnauthenticatedError) as told:
        await asking.identify(TOKEN)
    assert TOKEN not in str(told.value)


async def test_the_issuer_is_not_asked_about_the_gateways_own_keys(asking, said):
    assert await asking.identify("pml_aaaaaaaaaaaaaaaa_secret") is None
    assert said.forms == []


async def test_a_token_is_neither_let_in_nor_refused_while_nobody_can_be_asked(asking, said, services):
    said.down = True
    with pytest.raises(FetchError):
        await asking.identify(TOKEN)
    assert not any(secret in str(services.log.lines) for secret in (TOKEN, "gateways-secret"))


async def test_a_signed_token_is_asked_about_as_well(asking, said, signer):
    with pytest.raises(UnauthenticatedError):
        await asking.identify(signer.token())
    assert said.forms[0][0]["token"].count(".") == 2
    assert said.asked[-1] == f"{ISSUER}/introspect"
