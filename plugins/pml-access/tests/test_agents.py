"""Whose agents are, who may call them, and whose executions are seen."""

from __future__ import annotations

import asyncio

import pytest

from pml_access import plugin
from pml_access.agents import AGENTS, Agents, ConfiguredRuleError, Rule
from pml_access.filters import CodeFilter, KeyToolFilter, allowed
from pml_access.settings import Agent, Settings
from pml_hookspecs import CodeRun, Scope, Session, Status, ToolCall
from pml_testing.fakes import FakeRun, entry, outcome
from pml_testing.gateway import until

pytestmark = pytest.mark.anyio


def session(principal="alice", **about):
    return Session(key=principal, principal=principal, **about)


def agent_session(name):
    return session(f"agent:{name}", agent=name, access_key="k")


SYSTEM = session("system", scopes=frozenset({"system"}))


async def ruled(agents):
    """``report`` is alice's and shared with bob, ``mailer`` is bob's; ``report`` may call ``mailer``."""
    await agents.change("report", owner=lambda _: "alice", shared_with=lambda before: before | {"bob"})
    await agents.change("mailer", owner=lambda _: "bob")
    await agents.change("report", permits=lambda before: before | {"mailer"})
    await agents.read()


async def test_people_see_their_own_and_what_their_and_shared_agents_ran(agents):
    await ruled(agents)
    for results in (False, True):
        scopes = {name: await agents.scope(session(name), results=results) for name in ("alice", "bob", "carol")}
        assert scopes == {
            "alice": Scope(principals=frozenset({"alice"}), agents=frozenset({"report"})),
            "bob": Scope(principals=frozenset({"bob"}), agents=frozenset({"report", "mailer"})),
            "carol": Scope(principals=frozenset({"carol"})),
        }


async def test_agents_list_permitted_ones_and_read_results_of_their_own_alone(agents):
    await ruled(agents)
    own = frozenset({"agent:report"})
    listed = await agents.scope(agent_session("report"), results=False)
    assert listed == Scope(principals=own, agents=frozenset({"report", "mailer"}))
    assert await agents.scope(agent_session("report"), results=True) == Scope(
        principals=own, agents=frozenset({"report"})
    )


async def test_systems_see_everything(agents):
    for results in (False, True):
        assert await agents.scope(SYSTEM, results=results) == Scope(principals=None)


async def test_of_whom_nothing_is_known_others_may_say_what_they_see(identities, agents):
    await ruled(agents)
    assert await identities.scope(session("carol"), results=False) is None
    assert await identities.scope(session("carol", access_key="k"), results=False) == Scope(
        principals=frozenset({"carol"})
    )
    # A token of the settings makes alice no other.
    assert (await identities.scope(session("alice"), results=True)).agents == {"report"}


async def test_an_agent_without_an_owner_is_everybodys_and_one_with_an_owner_is_not(agents):
    await ruled(agents)
    callers = {"alice": session(), "bob": session("bob"), "carol": session("carol"), "local": session("local")}
    assert [name for name, caller in callers.items() if agents.may_call(caller, "report")] == ["alice", "bob"]
    assert [name for name, caller in callers.items() if agents.may_call(caller, "mailer")] == ["bob"]
    assert all(agents.may_call(caller, "free") for caller in callers.values())
    assert all(agents.may_call(SYSTEM, name) for name in ("report", "mailer", "free"))


async def test_an_agent_may_call_permitted_ones_and_no_others(agents):
    await ruled(agents)
    assert [name for name in ("report", "mailer", "free") if agents.may_call(agent_session("report"), name)] == [
        "mailer"
    ]
    assert not any(agents.may_call(agent_session("mailer"), name) for name in ("report", "mailer", "free"))


async def test_sharing_what_has_no_owner_gives_nobody_its_executions(agents):
    await agents.change("free", shared_with=lambda before: before | {"bob"})
    await agents.read()
    assert (await agents.scope(session("bob"), results=False)).agents == frozenset()


async def test_the_settings_say_all_of_the_agents_that_they_name(services, agents):
    await ruled(agents)
    declared = Settings(agents={"report": Agent(owner="carol", permits=("free",))})
    other = Agents(services, declared)
    assert (await other.current())["report"] == Rule("carol", frozenset(), frozenset({"free"}))
    assert (await other.current())["mailer"].owner == "bob"
    with pytest.raises(ConfiguredRuleError):
        await other.change("report", owner=lambda _: "bob")


async def test_changes_of_the_store_are_seen_soon(services, agents, monkeypatch):
    other = Agents(services, Settings())
    assert await other.current() == {}
    await agents.change("report", owner=lambda _: "alice")
    assert await other.current() == {}
    monkeypatch.setattr("pml_access.agents.FRESH_S", -1.0)
    assert (await other.current())["report"].owner == "alice"


async def test_two_who_change_an_agent_at_once_both_count(agents):
    changes = [agents.change("report", shared_with=lambda before, n=n: before | {f"user{n}"}) for n in range(10)]
    await asyncio.gather(*changes)
    await agents.read()
    assert agents.rules["report"].shared_with == {f"user{n}" for n in range(10)}


async def test_while_the_rules_are_not_known_no_agent_may_be_called(agents, services, monkeypatch):
    assert not agents.may_call(session(), "free")
    assert agents.may_call(SYSTEM, "free")

    async def broken(*_args, **_more):
        raise OSError("the disk is gone")

    monkeypatch.setattr(services.store.documents, "find", broken)
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            await agents.scope(session(), results=False)
    assert len(services.log.lines) == 1


async def test_rules_outlive_a_store_that_cannot_be_read(agents, services, monkeypatch):
    await ruled(agents)

    async def broken(*_args, **_more):
        raise OSError("the disk is gone")

    monkeypatch.setattr(services.store.documents, "find", broken)
    monkeypatch.setattr("pml_access.agents.FRESH_S", -1.0)
    assert (await agents.current())["report"].owner == "alice"
    assert agents.may_call(session(), "report")


# Patterns.


@pytest.mark.parametrize(
    ("allow", "deny", "tool", "expected"),
    [
        (None, (), "shell:run", True),
        (("files:*",), (), "files:read", True),
        (("files:*",), (), "shell:run", False),
        (("files:*",), (), "filesystem:read", False),
        (("files:*",), ("files:delete*",), "files:delete_all", False),
        (None, ("shell:*",), "shell:run", False),
        (None, ("shell:*",), "files:read", True),
        ((), (), "files:read", False),
        (("Files:*",), (), "files:read", False),
        (("*",), (), "files:read", True),
        (("*:read_*", "git:log"), (), "web:read_page", True),
        (("files:*",), (), "pml:search_tools", True),
        ((), (), "pml:search_tools", True),
        (("files:*",), ("pml:run_code",), "pml:run_code", False),
        (("files:*", "pml:search_tools"), (), "pml:search_tools", True),
        (("files:*", "pml:search_tools"), (), "pml:execute_workflow", False),
        (("files:*", "pml:*"), (), "pml:execute_workflow", True),
        (("files:[ab]",), (), "files:b", True),
        (None, ("pml:execute_workflow",), "pml:execute_workflow_read", False),
        (None, ("pml:execute_workflow_read",), "pml:execute_workflow", True),
        (("files:*", "pml:call_tool"), (), "pml:call_tool_read", True),
        (("files:*", "pml:call_tool"), (), "pml:execute_workflow_read", False),
        (None, ("files:tree",), "files:tree_read", True),
    ],
)
def test_patterns_of_a_key_say_what_it_may_have(allow, deny, tool, expected):
    assert allowed(tool, session(allow=allow, deny=deny)) is expected


async def test_the_filter_minds_patterns_and_agents(agents):
    await ruled(agents)
    keeps = KeyToolFilter(agents)
    assert keeps(entry("files:read"), session())
    assert not keeps(entry("files:read"), session(deny=("files:*",)))
    assert keeps(entry("agents:report"), session())
    assert not keeps(entry("agents:report"), session(deny=("agents:*",)))
    assert not keeps(entry("agents:report"), session("carol"))
    assert not keeps(entry("agents:report"), session("carol", allow=("agents:*",)))


async def test_lists_are_shared_only_while_there_is_nothing_to_tell_apart(agents, keys, made):
    keeps = KeyToolFilter(agents)
    assert not keeps.shared
    await agents.read()
    assert keeps.shared
    await agents.change("report", owner=lambda _: "alice")
    await agents.read()
    assert not keeps.shared
    await agents._services.store.documents.delete(AGENTS, "report")
    await agents.read()
    assert keeps.shared
    await made()
    await agents.read()
    assert not keeps.shared


async def test_code_is_refused_wherever_it_runs_to_whom_its_tool_is_denied():
    async def runs(task, run):
        return outcome(task.id)

    async def status(task, **about):
        return (await CodeFilter()(task, FakeRun(session=session(**about)), runs)).status

    code = CodeRun(id="c", language="python", source="1")
    assert await status(code) is Status.OK
    assert await status(code, allow=("files:*",)) is Status.OK
    assert await status(code, deny=("pml:run_code",)) is Status.DENIED
    assert await status(code, deny=("pml:*",)) is Status.DENIED
    assert await status(code, allow=("files:*", "pml:search_tools")) is Status.DENIED
    assert await status(ToolCall(id="t", tool="files:read"), deny=("pml:*",)) is Status.OK


# The hooks.


async def test_the_plugin_keeps_up_and_new_settings_count_at_once(services, monkeypatch):
    monkeypatch.setattr("pml_access.agents.FRESH_S", 0.01)
    (keeps,), (identities, _), (life,) = (
        hook(services) for hook in (plugin.pml_filter_tools, plugin.pml_offers, plugin.pml_lifespan)
    )
    async with life:
        assert keeps(entry("agents:report"), session("bob"))
        await Agents(services, Settings()).change("report", owner=lambda _: "alice")
        await until(lambda: not keeps(entry("agents:report"), session("bob")))
        services.settings = Settings(required=True, agents={"report": Agent(owner="bob")})
        (again,) = plugin.pml_filter_tools(services)
        assert again(entry("agents:report"), session("bob"))
        assert identities.service.settings.required
    await services.stop()
