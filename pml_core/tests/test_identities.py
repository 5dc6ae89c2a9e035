"""Whose key it is, whose executions may be seen: as the plugins say that know, and nobody's when they fail."""

from __future__ import annotations

import types

import pytest

from pml_hookspecs import Identity, Offer, RunOptions, Scope, Session, ToolCall, UnauthenticatedError, hookimpl
from pml_kit.offers import ACCESS, IDENTITIES
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
ALICE = Identity(principal="alice", access_key="k1", agent="reporter", deny=("one:b",))


class Keys:
    """Knows one key."""

    def __init__(self, scope=None):
        self._scope = scope

    async def identify(self, token):
        if token == "revoked":
            raise UnauthenticatedError("The key has been revoked.")
        return ALICE if token == "alice's" else None

    async def scope(self, session, *, results):
        if isinstance(self._scope, Exception):
            raise self._scope
        return self._scope(session, results) if self._scope else None


def plugin(*identities):
    made = types.ModuleType("plugin")
    made.pml_offers = hookimpl(lambda services: [Offer(IDENTITIES, one) for one in identities])
    return made


async def test_keys_are_asked_of_each_plugin_in_turn():
    async with running({}, plugins={("guards", "a"): plugin(Keys()), ("guards", "b"): plugin(Keys())}) as gateway:
        access = gateway.assembly.services("a").find(ACCESS)
        assert await access.identify("alice's") == ALICE
        assert await access.identify("another") is None
        assert await access.identify(None) is None
        with pytest.raises(UnauthenticatedError, match="revoked"):
            await access.identify("revoked")


async def test_without_keys_a_session_sees_its_principals_executions_and_the_system_all():
    async with running({}) as gateway:
        of = gateway.identities.scope
        assert await of(Session(key="k", principal="bob"), results=False) == Scope(principals=frozenset({"bob"}))
        assert await of(Session(key="k", scopes=frozenset({"system"})), results=True) == Scope(principals=None)


async def test_the_plugin_that_knows_says_what_may_be_seen():
    def scope(session, results):
        return Scope(principals=frozenset({session.principal}), agents=frozenset({"own"} if results else {"a", "own"}))

    async with running({}, plugins={("guards", "keys"): plugin(Keys(scope))}) as gateway:
        access, session = gateway.assembly.services("keys").find(ACCESS), Session(key="k", principal="alice")
        assert (await access.scope(session)).agents == {"a", "own"}
        assert (await access.scope(session, results=True)).agents == {"own"}


async def test_nothing_may_be_seen_when_the_plugin_that_should_know_fails():
    async with running({}, plugins={("guards", "keys"): plugin(Keys(RuntimeError("broken")))}) as gateway:
        session = Session(key="k", scopes=frozenset({"system"}))
        assert await gateway.identities.scope(session, results=False) == Scope(principals=frozenset())


async def test_what_a_key_says_is_in_the_session_and_in_the_record():
    async with running({"one": ScriptedServer(["a"])}) as gateway:
        client = Client(gateway, identity=ALICE)
        await client.initialize()
        await client.call("one__a")
        (record,) = gateway.store.executions.records.values()
        assert (record.principal, record.access_key, record.agent, record.as_agent) == ("alice", "k1", "reporter", True)


async def test_two_keys_of_one_principal_have_views_of_their_own():
    async with running({}, plugins={("hooks", "any"): plugin()}) as gateway:
        session = gateway.assembly.services("any").session
        one, two = (session(Identity(principal="alice", access_key=key)) for key in ("k1", "k2"))
        assert one.key != two.key
        assert one.principal == two.principal == "alice"
        assert (session(ALICE).deny, session(ALICE).agent) == (("one:b",), "reporter")


async def test_a_client_that_calls_itself_like_an_agent_is_not_taken_for_one():
    async with running({"one": ScriptedServer(["a"])}) as gateway:
        client = Client(gateway, info={"name": "reporter", "version": "1"}, modern=True)
        await client.call("one__a")
        (record,) = gateway.store.executions.records.values()
        assert (record.agent, record.as_agent) == ("client:reporter", False)


async def test_who_acts_and_why_is_recorded_of_what_plugins_run():
    async with running({"one": ScriptedServer(["a"])}, plugins={("hooks", "any"): plugin()}) as gateway:
        services = gateway.assembly.services("any")
        call = ToolCall(id="call", tool="one:a")
        await services.run(call, Session(key="k"), RunOptions(agent="reporter", trigger="schedule", schedule="nightly"))
        (record,) = gateway.store.executions.records.values()
        assert (record.agent, record.as_agent, record.trigger, record.schedule) == (
            "reporter",
            True,
            "schedule",
            "nightly",
        )
