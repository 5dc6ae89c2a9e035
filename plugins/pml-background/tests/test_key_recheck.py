"""Whether what goes on without its client still has the rights that it was begun with."""

from __future__ import annotations

import types

import pytest

from pml_background import key_recheck
from pml_background.key_recheck import KeyRecheck
from pml_hookspecs import Identity, Offer, Session, Status, ToolCall, UnauthenticatedError, hookimpl, replace
from pml_kit.offers import IDENTITIES
from pml_testing.fakes import FakeLog
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
HAD = Identity(
    principal="ada", access_key="k", scopes=frozenset({"a", "b"}), allow=("one:*", "two:*"), deny=("one:drop",)
)
SESSION = Session(
    key="s", principal="ada", access_key="k", scopes=HAD.scopes, allow=HAD.allow, deny=HAD.deny
)  # fmt: skip
CALL = ToolCall(id="call", tool="one:a")


class Knows:
    """Says of each key what it is told to."""

    def __init__(self, says=HAD):
        self.says, self.asked = says, 0

    async def identify(self, token):
        return None

    async def scope(self, session, *, results):
        return None

    async def current(self, session):
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Older:
    """Knows keys by their tokens only."""

    async def identify(self, token):
        return None


def known(*found):
    return KeyRecheck(lambda: [(f"p{n}", one) for n, one in enumerate(found)], FakeLog())


@pytest.mark.parametrize(
    "less",
    [
        {"scopes": frozenset({"a"})},
        {"allow": ("one:*",)},
        {"deny": ("one:drop", "two:*")},
        {"principal": "bob"},
        {"agent": "bot"},
        {"allow": ()},
    ],
    ids=str,
)
async def test_a_key_that_lets_its_holder_have_less_ends_the_work(less):
    with pytest.raises(UnauthenticatedError, match="less than when this was begun"):
        await known(Knows(replace(HAD, **less))).check(SESSION)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"scopes": frozenset({"a", "b", "c"})},
        {"allow": None},
        {"allow": ("two:*", "one:*", "three:*")},
        {"deny": ()},
    ],
    ids=lambda more: ", ".join(more) or "the same",
)
async def test_a_key_that_lets_its_holder_have_as_much_or_more_does_not(more):
    await known(Older(), Knows(None), Knows(replace(HAD, **more))).check(SESSION)


async def test_patterns_where_there_were_none_are_less():
    with pytest.raises(UnauthenticatedError):
        await known(Knows()).check(replace(SESSION, allow=None))


async def test_a_key_that_nobody_knows_ends_nothing():
    await known(Older(), Knows(None)).check(SESSION)
    await known().check(SESSION)


async def test_it_is_asked_no_more_often_than_every_two_seconds(monkeypatch):
    knows = Knows()
    all_of = known(knows)
    for _ in range(100):
        await all_of.check(SESSION)
    assert knows.asked == 1
    monkeypatch.setattr(key_recheck, "FRESH_S", 0.0)
    knows.says = UnauthenticatedError("The API key was revoked")
    with pytest.raises(UnauthenticatedError, match="revoked"):
        await all_of.check(SESSION)


async def test_keys_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(key_recheck, "MOST_KEYS", 5)
    all_of = known(Knows(None))
    for n in range(50):
        await all_of.check(replace(SESSION, access_key=f"k{n}"))
    assert len(all_of._said) == 5


def plugins(knows):
    made = types.ModuleType("knows")
    made.pml_offers = hookimpl(lambda services: [Offer(IDENTITIES, knows)])
    made.pml_lifespan = hookimpl(lambda services: [])
    return {("guards", "knows"): made}


async def test_where_it_cannot_be_known_nothing_goes_on_and_it_may_be_tried_again():
    server = ScriptedServer(["a"])
    async with running({"one": server}, plugins=plugins(Knows(OSError("no disk at /secret")))) as gateway:
        outcome = await gateway.assembly.services("knows").run(CALL, SESSION)
        assert (outcome.status, outcome.failure.code) == (Status.DENIED, "access.unavailable")
        assert outcome.failure.retryable
        assert "/secret" not in outcome.failure.message
        assert server.calls == []


async def test_a_client_that_waits_is_its_listeners_business():
    knows = Knows(UnauthenticatedError("The API key was revoked"))
    async with running({"one": ScriptedServer(["a"])}, plugins=plugins(knows)) as gateway:
        client = Client(gateway, identity=replace(HAD, allow=None, deny=()))
        assert "isError" not in await client.call("one__a")
        assert knows.asked == 0
