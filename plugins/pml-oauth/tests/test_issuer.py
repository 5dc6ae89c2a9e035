"""The issuer's keys: how they are found, followed when they change, and asked for no more often than is good."""

from __future__ import annotations

import pytest
from signer import ISSUER, Said, Signer

from pml_hookspecs import UnauthenticatedError
from pml_oauth import issuer as module
from pml_oauth.fetch import FetchError
from pml_oauth.issuer import Issuer

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def monotonic(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


async def test_keys_are_read_once_for_many_tokens(made, said, signer):
    identities = made()
    for _ in range(20):
        await identities.identify(signer.token())
    assert said.asked == [f"{ISSUER}/.well-known/oauth-authorization-server", f"{ISSUER}/keys"]


async def test_a_new_key_counts_and_one_that_is_gone_does_not(made, said, signer, clock):
    identities, new = made(), Signer("two")
    await identities.identify(signer.token())
    said.signers = [new]
    clock.now_s += module.RETRY_S
    assert (await identities.identify(new.token())).principal == "ada"
    with pytest.raises(UnauthenticatedError):
        await identities.identify(signer.token())


async def test_a_key_that_is_gone_does_not_count_when_the_keys_are_old(made, said, signer, clock):
    identities = made()
    await identities.identify(signer.token())
    said.signers = [Signer("two")]
    await identities.identify(signer.token())
    clock.now_s += module.FRESH_S
    with pytest.raises(UnauthenticatedError):
        await identities.identify(signer.token())


async def test_tokens_with_made_up_keys_have_the_issuer_asked_once_in_a_while(made, said, signer, clock):
    identities = made()
    await identities.identify(signer.token())
    asked = len(said.asked)
    for lapse_s in (0, module.RETRY_S):
        clock.now_s += lapse_s
        for number in range(50):
            with pytest.raises(UnauthenticatedError):
                await identities.identify(signer.token(header={"kid": f"made-up-{number}"}))
    assert len(said.asked) == asked + 2, "metadata and keys once more, after the time that has to pass"


async def test_keys_count_for_an_hour_while_the_issuer_is_down(made, said, signer, clock):
    identities = made()
    await identities.identify(signer.token())
    said.down = True
    clock.now_s += module.TRUSTED_S - 1
    assert (await identities.identify(signer.token())).principal == "ada"
    clock.now_s += 1
    with pytest.raises(FetchError, match="down"):
        await identities.identify(signer.token())
    said.down = False
    clock.now_s += module.FAILED_RETRY_S
    assert (await identities.identify(signer.token())).principal == "ada"


async def test_an_issuer_that_was_never_reached_lets_nobody_in_and_is_not_asked_by_each_token(
    made, said, signer, clock
):
    identities = made()
    said.down = True
    for _ in range(20):
        with pytest.raises(FetchError, match="down"):
            await identities.identify(signer.token())
    assert len(said.asked) == 2, "both places where its metadata may be, once"


@pytest.mark.parametrize(
    ("issuer", "urls"),
    [
        (
            "https://a.example",
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration",
            ],
        ),
        (
            "https://a.example/realms/one",
            [
                "https://a.example/.well-known/oauth-authorization-server/realms/one",
                "https://a.example/.well-known/openid-configuration/realms/one",
                "https://a.example/realms/one/.well-known/openid-configuration",
            ],
        ),
    ],
)
async def test_metadata_are_looked_for_where_the_standards_say(issuer, urls):
    said = Said(issuer="https://elsewhere.example")
    with pytest.raises(FetchError):
        await Issuer(issuer, said).endpoint("introspection_endpoint")
    assert said.asked == urls
