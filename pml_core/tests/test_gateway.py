from __future__ import annotations

import asyncio
import types
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry, supervisor
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import (
    CodeRun,
    Match,
    MetaTool,
    Offer,
    Peer,
    Phase,
    Selection,
    Session,
    ToolCall,
    Workflow,
    hookimpl,
    replace,
    setting,
)
from pml_kit.errors import OperatorError
from pml_kit.offers import SEARCH
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, configuration, running

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of the plugins of these tests."""

    limit: int = setting(10, "Some limit.", ge=1)
    pin: str = setting("", "A secret.", secret=True)


async def ours(arguments, run):
    return {"n": 1}


def plugin(**hooks):
    made = types.ModuleType("made")
    for name, function in hooks.items():
        setattr(made, name, hookimpl(function))
    return made


def tool(name, **options):
    return MetaTool(definition={"name": name, "inputSchema": {"type": "object"}}, call=ours, **options)


def boom(services):
    raise ValueError("broken plugin")


async def test_a_gateway_without_any_plugin_and_server_runs():
    async with Gateway(configuration([]), records=[]) as made:
        client = Client(made)
        await client.initialize()
        assert await client.tools() == []


@pytest.mark.parametrize("hook", ["pml_meta_tools", "pml_wrap_executor", "pml_lifespan", "pml_offers"])
async def test_a_plugin_whose_hook_raises_is_quarantined_and_named(hook, capsys):
    plugins = {
        ("hooks", "bad"): plugin(**{hook: boom}),
        ("hooks", "good"): plugin(pml_meta_tools=lambda services: [tool("fine")]),
    }
    async with running({"fs": ScriptedServer(["read"])}, plugins=plugins) as made:
        client = Client(made)
        assert (await client.call("fine"))["structuredContent"] == {"n": 1}
        assert (await client.call("fs__read"))["structuredContent"] == {}
        assert made.status(Session(key="test"))["plugins"]["bad"] == "quarantined: ValueError: broken plugin"
    err = capsys.readouterr().err
    assert "bad" in err
    assert "broken plugin" in err


@pytest.mark.parametrize(("kind", "hook"), [("hooks", "pml_filter_tools"), ("guards", "pml_offers")])
async def test_without_those_who_say_what_may_be_done_a_gateway_does_not_start(kind, hook):
    with pytest.raises(OperatorError, match=rf"plugin 'bad' failed in {hook}: broken plugin.*does not start"):
        async with running({}, plugins={(kind, "bad"): plugin(**{hook: boom})}):
            pass


async def test_a_plugin_that_somebody_has_settings_for_and_cannot_be_loaded_keeps_it_from_starting():
    async def wrong(services):
        return ()

    plugins = {("hooks", "bad"): plugin(pml_offers=wrong)}
    async with running({}, plugins=plugins) as made:
        assert "quarantined" in made.status(Session(key="test"))["plugins"]["bad"]
    with pytest.raises(OperatorError, match="bad"):
        async with running({}, plugins=plugins, tables={"bad": {}}):
            pass


@pytest.mark.parametrize("hook", ["pml_meta_tools", "pml_wrap_executor", "pml_lifespan"])
async def test_what_is_required_and_fails_keeps_it_from_starting(hook):
    with pytest.raises(OperatorError, match=r"gateway\.required: .*'bad'.*ValueError: broken plugin"):
        async with running({}, plugins={("hooks", "bad"): plugin(**{hook: boom})}, required=("bad",)):
            pass


async def test_a_strict_gateway_does_not_start_with_a_broken_plugin():
    with pytest.raises(OperatorError, match=r"plugin 'bad' failed in pml_meta_tools: ValueError: broken plugin"):
        async with running({}, plugins={("hooks", "bad"): plugin(pml_meta_tools=boom)}, strict=True):
            pass


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((tool("same"),), (tool("same"),)),
        ((tool("a", aliases=("same",)),), (tool("same"),)),
        ((tool("a", aliases=("x",)),), (tool("b", aliases=("x",)),)),
    ],
)
async def test_a_tools_name_claimed_twice_stops_the_start_and_names_both(one, other):
    plugins = {
        ("hooks", "p1"): plugin(pml_meta_tools=lambda services: one),
        ("hooks", "p2"): plugin(pml_meta_tools=lambda services: other),
    }
    with pytest.raises(OperatorError) as caught:
        async with running({}, plugins=plugins):
            pass
    assert "'p1'" in caught.value.message
    assert "'p2'" in caught.value.message
    assert "block" in caught.value.remedy


async def test_each_plugin_gets_its_own_settings_log_and_services():
    seen = {}

    def looks(services):
        seen[services.plugin] = services
        return ()

    one, other = plugin(pml_lifespan=looks), plugin(pml_lifespan=looks)
    one.settings_type = Settings
    tables = {"one": {"limit": 3}}
    async with running({}, plugins={("hooks", "one"): one, ("hooks", "other"): other}, tables=tables) as made:
        assert seen["one"].settings == Settings(limit=3)
        assert seen["other"].settings is None
        assert seen["one"].catalog is made.catalog
        assert seen["one"].store is made.store


async def test_a_plugins_settings_that_do_not_fit_stop_the_start():
    bad = plugin(pml_meta_tools=lambda services: ())
    bad.settings_type = Settings
    with pytest.raises(OperatorError, match=r"plugins\.bad\.limit"):
        async with running({}, plugins={("hooks", "bad"): bad}, tables={"bad": {"limit": 0}}):
            pass


async def test_a_table_that_no_plugin_reads_is_warned_of(capsys):
    async with running({}, plugins={("hooks", "hybrid"): plugin()}, tables={"hybrd": {"x": 1}, "zzz": {"y": 1}}):
        pass
    err = capsys.readouterr().err
    assert "[plugins.hybrd] (test): no such plugin is installed; did you mean 'hybrid'?" in err
    assert "[plugins.zzz]" in err


async def test_a_settings_secret_is_in_no_log_and_no_record(capsys):
    def tells(services):
        services.log.warning("starting", pin=services.settings.pin)
        return ()

    leaky = plugin(pml_lifespan=tells)
    leaky.settings_type = Settings
    async with running(
        {"fs": ScriptedServer(["read"])},
        plugins={("hooks", "leaky"): leaky},
        tables={"leaky": {"pin": "pin-0815-4711"}},
    ) as made:
        await Client(made).call("fs__read", {"a": "pin-0815-4711"})
        kept = repr(list(made.store.executions.records.values()))
    assert "pin-0815-4711" not in capsys.readouterr().err
    assert "pin-0815-4711" not in kept


# Life


def bracket(name, trail):
    @asynccontextmanager
    async def lifespan():
        trail.append(f"{name} in")
        yield
        trail.append(f"{name} out")

    return lambda services: [lifespan()]


async def test_lifespans_are_entered_in_name_order_after_the_drivers_and_left_in_reverse():
    trail: list[str] = []

    class Store(MemoryStore):
        async def __aenter__(self):
            trail.append("store in")
            return self

        async def __aexit__(self, *exc):
            trail.append("store out")

    plugins = {
        ("hooks", "b"): plugin(pml_lifespan=bracket("b", trail)),
        ("hooks", "a"): plugin(pml_lifespan=bracket("a", trail)),
    }
    async with running({}, plugins={**plugins, ("store", "sqlite"): Store}):
        trail.append("up")
    assert trail == ["store in", "a in", "b in", "up", "b out", "a out", "store out"]


async def test_a_start_that_fails_leaves_what_was_entered():
    trail: list[str] = []

    class Store(MemoryStore):
        async def __aexit__(self, *exc):
            trail.append("store out")

    class Broken:
        def __init__(self, settings, services):
            raise ValueError("no network")

    plugins = {("store", "sqlite"): Store, ("tracer", "log"): Broken}
    with pytest.raises(OperatorError, match=r"tracer driver 'log' .* cannot be constructed: ValueError: no network"):
        async with running({}, plugins=plugins):
            pass
    assert trail == ["store out"]


@pytest.mark.parametrize("kind", ["store", "tracers", "executors"])
async def test_a_driver_that_is_named_and_not_there_stops_the_start(kind):
    named = {"store": "other", "tracers": ("other",), "executors": {"code": "other"}}[kind]
    with pytest.raises(OperatorError, match=f"no {kind.removesuffix('s')} driver named 'other'"):
        async with running({}, **{kind: named}):
            pass


async def test_drivers_that_are_only_defaults_may_be_missing(capsys):
    async with running({}) as made:
        assert isinstance(made.store, MemoryStore)
    assert "there is no store" in capsys.readouterr().err


class Tracer:
    """Does on flush what it is told to."""

    flushed = None

    def __init__(self, settings, services):
        pass

    def started(self, span):
        pass

    def ended(self, ended):
        pass

    async def flush(self):
        await type(self).flushed()


async def test_a_tracer_is_flushed_while_the_store_is_up():
    trail = []

    class Store(MemoryStore):
        async def __aexit__(self, *exc):
            trail.append("store out")

    async def flush():
        trail.append("flush")

    Tracer.flushed = staticmethod(flush)
    async with running({}, plugins={("store", "sqlite"): Store, ("tracer", "log"): Tracer}):
        pass
    assert trail == ["flush", "store out"]


@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_a_tracer_that_cannot_flush_does_not_keep_the_gateway_from_ending(how, monkeypatch):
    monkeypatch.setattr(supervisor, "CLOSING_S", 0.02)

    async def flush():
        if how == "raises":
            raise OSError("collector is gone")
        await asyncio.Event().wait()

    Tracer.flushed = staticmethod(flush)
    try:
        async with asyncio.timeout(30):
            async with running({}, plugins={("tracer", "log"): Tracer}):
                pass
    except TimeoutError:
        pytest.fail("closing waited for ever")


# Parts


async def test_two_executors_for_one_kind_need_a_choice():
    class One:
        handles = frozenset({CodeRun})

        def __init__(self, settings, services):
            pass

        async def execute(self, task, run):
            return outcome(task.id, type(self).__name__)

    class Two(One):
        handles = frozenset({CodeRun, Workflow})

    plugins = {("executor", "one"): One, ("executor", "two"): Two}
    with pytest.raises(OperatorError, match="executors 'one' and 'two' both run code tasks") as caught:
        async with running({}, plugins=plugins):
            pass
    assert "[gateway.executors] code" in caught.value.remedy
    async with running({}, plugins=plugins, executors={"code": "one", "workflow": "two"}) as made:
        session = made.accept(None, Peer(address="t")).conversation.session
        assert (await made.dispatcher.start(CodeRun(id="c", language="x", source=""), session)).output == "One"
        assert (await made.dispatcher.start(Workflow(id="w", tasks=()), session)).output == "Two"


async def test_an_executor_that_claims_tool_calls_is_a_message_and_no_traceback():
    class Wrong:
        handles = frozenset({ToolCall})

        def __init__(self, settings, services):
            pass

    with pytest.raises(OperatorError, match="wrong"):
        async with running({}, plugins={("executor", "wrong"): Wrong}):
            pass


@pytest.mark.parametrize(
    ("plugins", "providers", "counts"),
    [("b", {}, "b"), ("ba", {}, "own"), ("ba", {"search": "b"}, "b"), ("ba", {"search": "a"}, "a")],
)
async def test_which_search_index_is_used_says_a_setting(plugins, providers, counts, capsys):
    class Index:
        def __init__(self, score):
            self.score = score

        async def build(self, entries, revision):
            self.entries = entries

        async def search(self, query, *, limit, min_score, among=None, session=None):
            return [Match(e.id, self.score) for e in self.entries]

    plugins = {("hooks", n): plugin(pml_offers=lambda services, n=n: [Offer(SEARCH, Index(n))]) for n in plugins}
    async with running({"fs": ScriptedServer(["read"])}, plugins=plugins, providers=providers) as made:
        await made.servers_tried()
        found = [m.score for m in await made.catalog.search("read", limit=1)]
    assert [one if isinstance(one, str) else "own" for one in found] == [counts]
    said = 'several plugins bring search (a, b): none of them counts; choose one: [gateway.providers] search = "a"'
    assert (said in capsys.readouterr().err) == (counts == "own")


@pytest.mark.parametrize(
    ("providers", "said"),
    [
        ({"search": "a"}, "gateway.providers.search: no plugin 'a' brings one; installed: none"),
        ({"serch": "a"}, "gateway.providers.serch: there is no such part; did you mean 'search'?"),
    ],
)
async def test_a_choice_that_nobody_offers_is_one_line(providers, said):
    with pytest.raises(OperatorError) as refused:
        async with running({}, providers=providers):
            pass
    assert str(refused.value) == said


async def test_wrappers_are_ordered_and_the_cores_own_is_among_them():
    class Wrapper:
        def __init__(self, phase):
            self.phase = phase

        async def __call__(self, task, run, call_next):
            return await call_next(task, run)

    plugins = {
        ("hooks", "a"): plugin(pml_wrap_executor=lambda services: [Wrapper(Phase.RETRY), Wrapper(Phase.OBSERVE)])
    }
    async with running({}, plugins=plugins) as made:
        assert [(w.plugin, w.wrapper.phase) for w in made.wrappers] == [("a", 100), ("core", 300), ("a", 800)]


async def test_a_mode_is_constructed_with_its_settings():
    class Mode:
        settings_type = Settings

        def __init__(self, settings, services):
            self.settings = settings

        async def select(self, catalog, session):
            return Selection(tuple(e.id for e in catalog)[: self.settings.limit])

    options = {"tools_exposure": "mine", "tables": {"mine": {"limit": 2}}}
    async with running(
        {"fs": ScriptedServer(["a", "b", "c"])}, plugins={("exposure_mode", "mine"): Mode}, **options
    ) as made:
        assert await Client(made).tools() == ["fs__a", "fs__b"]


async def test_serving_at_an_address_that_no_transport_serves_is_a_message():
    async with running({}) as made:
        with pytest.raises(OperatorError, match="nosuch"):
            await made.serve("nosuch:")
        with pytest.raises(OperatorError, match="cannot serve clients at 'scripted:x'"):
            await made.serve("scripted:x")


async def test_secrets_of_the_configuration_are_known_from_the_start(capsys):
    from pml_hookspecs import replace
    from pml_settings.config import ServerSettings

    config = replace(configuration([]), servers={"git": ServerSettings(command="x", env={"API_KEY": "very-secret"})})
    async with Gateway(config, records=[registry.provide("pml.transport", "stdio", boom)]) as made:
        made.log.error("saw very-secret")
    assert "very-secret" not in capsys.readouterr().err


async def test_a_gateway_without_servers_says_how_to_get_some(monkeypatch, capsys):
    monkeypatch.setattr("pml_core.announcement.AFTER_FIRST_LIST_S", 0)
    async with running({}) as made:
        await made.announcement.made.wait()
    said = capsys.readouterr().err
    assert "No servers are configured" in said
    assert "pml import" in said


async def test_what_a_dying_server_wrote_is_kept_and_shown_without_secrets():
    server = ScriptedServer(["read"])
    server.refuse = "exited with code 1; the end of its stderr: bad token hunter-2222"
    async with running({"fs": server}) as made:
        made.redactor.learn(["hunter-2222"])
        failed = made.servers["fs"]
        failed._say(replace(failed.status, reason=server.refuse))
        for _ in range(3):
            await asyncio.sleep(0)
        kept = repr(await made.store.catalog.statuses())
        assert "bad token" in kept
        assert "hunter-2222" not in kept + repr(made.status(Session(key="test")))
