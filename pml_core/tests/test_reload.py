"""A changed configuration in a running gateway."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import pytest

from pml_clients.configuration import restarts
from pml_clients.configuration.files import state_of
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import MetaTool, Peer, RpcError, Selection, hookimpl, replace, setting
from pml_kit.errors import OperatorError
from pml_kit.system.logs import Logs
from pml_settings.config import Config, EndpointSettings, GatewaySettings, ServerSettings, Source
from pml_testing.gateway import Client, ScriptedServer, ScriptedTransport, until

pytestmark = pytest.mark.anyio
CHANGED = ("notifications/tools/list_changed", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    dropped: list[str] = setting(list, "Tools that nobody gets.")


class Mode:
    settings_type = Names
    made = 0

    def __init__(self, settings, services) -> None:
        Mode.made += 1
        self.dropped = settings.dropped

    async def select(self, catalog, session):
        return Selection(tuple(e.id for e in catalog if not e.own and e.name not in self.dropped), shared=True)


class Busy(Mode):
    """Has a background task as long as it is in use."""

    living: ClassVar[list[str]] = []

    def __init__(self, settings, services) -> None:
        super().__init__(settings, services)
        self._services, self._name = services, f"{Mode.made}"

    async def __aenter__(self):
        self._services.spawn(self._live, name="live")
        return self

    async def __aexit__(self, *exc):
        self.living.append(f"{self._name} left")

    async def _live(self):
        self.living.append(self._name)
        try:
            await asyncio.Event().wait()
        finally:
            self.living.append(f"{self._name} stopped")


class Bad:
    def __init__(self, settings, services) -> None:
        raise ValueError("cannot be made")


class Filtering:
    settings_type = Names

    @hookimpl
    def pml_filter_tools(self, services):
        if "boom" in services.settings.dropped:
            raise ValueError("boom")
        dropped = services.settings.dropped
        return [lambda entry, session: entry.name not in dropped]


class Greeter(Filtering):
    """Has more than filters, which is read once."""

    @hookimpl
    def pml_meta_tools(self, services):
        return [MetaTool(definition={"name": "greet", "inputSchema": {"type": "object"}}, call=greet)]


async def greet(arguments, run):
    return {}


def configured(*servers: str, tables=None, endpoints=None, settings=None, **gateway) -> Config:
    gateway = {"tools_exposure": "mode", "log_level": "info", "log_format": "json", **gateway}
    return Config(
        gateway=GatewaySettings(**gateway),
        servers={
            name: ServerSettings(address=f"scripted:{name}", **(settings or {}).get(name, {})) for name in servers
        },
        tables=tables or {},
        sources=(Source("test", {"gateway": gateway, "plugins": tables or {}}),),
        endpoints=endpoints or {},
    )


@asynccontextmanager
async def gateway(config: Config, mode: type[Mode] = Mode):
    """A gateway; ``change`` applies another configuration."""
    Mode.made = 0
    servers = {"fs": ScriptedServer(["read", "write"]), "git": ScriptedServer(["log"])}
    found = [
        registry.provide("pml.transport", "scripted", ScriptedTransport(servers)),
        registry.provide("pml.exposure_mode", "mode", mode),
        registry.provide("pml.exposure_mode", "bad", Bad),
        registry.provide("pml.plugins", "filtering", Filtering()),
        registry.provide("pml.plugins", "greeter", Greeter()),
    ]
    wanted = [config]

    def read() -> Config:
        if isinstance(wanted[0], Exception):
            raise wanted[0]
        return wanted[0]

    async with Gateway(config, Logs("info", "json"), found) as made:
        await made.servers_tried()
        reload = made.reload(read, restarts.asked())

        async def change(to) -> bool:
            wanted[0] = to
            return await reload.now()

        made.change, made.scripted = change, servers
        yield made


async def connected(made, **said) -> Client:
    client = Client(made, **said)
    await client.initialize()
    await client.tools()
    return client


async def test_nothing_happens_when_nothing_has_changed(capsys):
    async with gateway(configured("fs")) as made:
        client = await connected(made)
        assert await made.change(configured("fs")) is True
        assert (client.link.notified, Mode.made) == ([], 1)
    assert "in force" not in capsys.readouterr().err


@pytest.mark.attack("The audit stands up", "change the configuration of a running gateway, and leave no row of it")
async def test_those_who_watch_are_told_what_was_taken_over_and_what_was_refused():
    heard = []

    async def watch(event):
        heard.append((event.kind, event.code, dict(event.details)))

    async with gateway(configured("fs")) as made:
        made.access_watchers.use([("test", watch)])
        await made.change(configured("fs"))
        await made.change(configured("fs", intent="x", call_timeout_s=7.0))
        await made.change(OperatorError("it does not fit"))
    changed = {"changed": ["gateway.intent", "gateway.call_timeout_s"], "with_next_start": ["gateway.call_timeout_s"]}
    ((kind, code, details), refused) = heard
    assert (kind, code) == ("change", "config.reloaded")
    assert {name: sorted(paths) for name, paths in details.items()} == {n: sorted(p) for n, p in changed.items()}
    assert refused == ("change", "config.refused", {"problem": "it does not fit"})


async def test_what_is_required_is_looked_at_when_it_changes(capsys):
    async with gateway(configured("fs")) as made:
        assert await made.change(configured("fs", required=("absent",))) is False
        assert made.config.gateway.required == ()
        assert await made.change(configured("fs", required=("greeter",)))
        assert made.config.gateway.required == ("greeter",)
        made.supervisor.failed["greeter"] = "it broke"
        assert await made.change(configured("fs", required=("greeter",), intent="x")) is False
    said = capsys.readouterr().err
    assert "'absent' is not installed" in said
    assert "it broke" in said
    assert "next start" not in said


async def test_the_table_of_a_plugin_that_is_not_loaded_is_said_to_wait_for_the_next_start(capsys):
    async with gateway(configured("fs")) as made:
        assert await made.change(configured("fs", tables={"new_policy": {"forbid": ["*"]}}))
    assert (
        "plugins.new_policy" in capsys.readouterr().err.partition("take effect with the next start")[0].splitlines()[-1]
    )


async def test_clients_whose_lists_changed_are_told_and_the_others_are_not():
    async with gateway(configured("fs")) as made:
        client, other = await connected(made), await connected(made, mode="meta_only")
        assert await made.change(configured("fs", tables={"mode": {"dropped": ["write"]}}))
        await until(lambda: client.link.notified)
        assert await client.tools() == ["fs__read"]
        assert (client.link.notified, other.link.notified) == ([CHANGED], [])


async def test_a_mode_whose_table_did_not_change_goes_on():
    async with gateway(configured("fs")) as made:
        await made.change(configured("fs", intent="x"))
        assert Mode.made == 1
        await made.change(configured("fs", intent="x", tables={"mode": {"dropped": ["write"]}}))
        assert Mode.made == 2


async def test_a_mode_that_another_took_the_place_of_is_left_once_with_its_tasks():
    Busy.living.clear()
    async with gateway(configured("fs"), Busy) as made:
        await until(lambda: Busy.living == ["1"])
        assert await made.change(configured("fs", tables={"mode": {"dropped": ["write"]}}))
        await until(lambda: "2" in Busy.living)
        assert sorted(Busy.living) == ["1", "1 left", "1 stopped", "2"]
        assert await made.change(configured("fs", tools_exposure="meta_only"))
        assert sorted(Busy.living) == ["1", "1 left", "1 stopped", "2", "2 left", "2 stopped"]
    assert len(Busy.living) == 6


async def test_a_mode_made_for_a_configuration_that_is_refused_is_left_and_the_old_one_goes_on():
    Busy.living.clear()
    refused = {"tables": {"mode": {"dropped": ["write"]}}, "endpoints": {"x": EndpointSettings(tools_exposure="bad")}}
    async with gateway(configured("fs"), Busy) as made:
        await until(lambda: Busy.living == ["1"])
        assert not await made.change(configured("fs", **refused))
        assert sorted(Busy.living) in (["1", "2 left"], ["1", "2", "2 left", "2 stopped"])
    assert {"1 left", "1 stopped"} <= set(Busy.living)


async def test_a_filter_of_changed_settings_holds_for_the_next_call_list_and_search():
    async with gateway(configured("fs")) as made:
        client = await connected(made)
        assert "isError" not in await client.call("fs__write")
        await made.change(configured("fs", tables={"filtering": {"dropped": ["write"]}}))
        assert (await client.call("fs__write"))["isError"] is True
        assert await client.tools() == ["fs__read"]
        session = client._handler.conversation.session
        assert [m.id for m in await made.catalog.search("write", limit=5, session=session)] == []
        await made.change(configured("fs"))
        assert "isError" not in await client.call("fs__write")
        assert [m.id for m in await made.catalog.search("write", limit=5, session=session)] == ["fs:write"]


@pytest.mark.parametrize(
    "tables",
    [
        {"filtering": {"dropped": ["boom"]}},
        {"filtering": {"droped": []}},
        {"mode": {"dropped": 5}, "filtering": {"dropped": ["write"]}},
    ],
)
async def test_what_does_not_fit_changes_nothing_at_all(tables, capsys):
    async with gateway(configured("fs")) as made:
        client = await connected(made)
        assert await made.change(configured("fs", "git", tables=tables, tools_exposure="meta_only")) is False
        assert await client.tools() == ["fs__read", "fs__write"]
        assert "isError" not in await client.call("fs__write")
        assert list(made.servers) == ["fs"]
        assert client.link.notified == []
    assert "the changed configuration is refused" in capsys.readouterr().err


async def test_what_cannot_be_read_changes_nothing(capsys):
    async with gateway(configured("fs")) as made:
        assert await made.change(OperatorError("x.toml: not valid TOML", "Mend it.")) is False
        assert await made.change(configured("fs", tools_exposure="meta_only")) is True
    said = capsys.readouterr().err
    assert "x.toml: not valid TOML" in said
    assert "Traceback" not in said


async def test_what_needs_a_restart_is_named_once_and_not_when_it_is_taken_back(capsys):
    async with gateway(configured("fs")) as made:
        late = configured("fs", call_timeout_s=5.0, tables={"greeter": {"dropped": ["log"]}})
        await made.change(late)
        said = capsys.readouterr().err
        assert '["gateway.call_timeout_s", "plugins.greeter"]' in said
        assert made.config.gateway.call_timeout_s == 60.0
        await made.change(replace(late, gateway=replace(late.gateway, intent="x")))
        assert "next start" not in capsys.readouterr().err
        await made.change(configured("fs", tables={"greeter": {"dropped": ["log"]}}))
        assert "next start" not in capsys.readouterr().err


async def test_the_log_level_and_the_page_size_take_effect(capsys):
    async with gateway(configured("fs")) as made:
        client = await connected(made)
        await made.change(configured("fs", page_size=1, log_level="error"))
        first = await client.request("tools/list")
        assert (len(first["tools"]), "nextCursor" in first) == (1, True)
        capsys.readouterr()
        made.log.warning("unheard of")
        assert capsys.readouterr().err == ""


# Endpoints


async def test_endpoints_come_change_and_go(capsys):
    async with gateway(configured("fs")) as made:
        with pytest.raises(LookupError):
            made.accept(None, Peer(address="x", endpoint="ops"))
        await made.change(configured("fs", endpoints={"ops": EndpointSettings(tools_exposure="mode")}))
        client = await connected(made, endpoint="ops")
        assert await client.tools() == ["fs__read", "fs__write"]
        await made.change(configured("fs", endpoints={"ops": EndpointSettings(tools_exposure="meta_only")}))
        await until(lambda: client.link.notified)
        assert await client.tools() == ["greet"]
        await made.change(configured("fs"))
        with pytest.raises(RpcError, match="There is no endpoint 'ops'"):
            await client.tools()
    assert '"endpoints": {"ops": "meta_only"}' in capsys.readouterr().err


# Servers


async def test_servers_come_and_go_and_their_statuses_with_them():
    async with gateway(configured("fs")) as made:
        client = await connected(made)
        await made.change(configured("fs", "git"))
        assert await client.tools() == ["fs__read", "fs__write", "git__log"]
        await made.change(configured("git"))
        assert await client.tools() == ["git__log"]
        assert [s.name for s in made.catalog.servers()] == ["git"]
        with pytest.raises(RpcError, match="Unknown tool: fs__read"):
            await client.call("fs__read")
        await made.change(configured("git", settings={"git": {"enabled": False}}))
        assert await client.tools() == []
        assert made.catalog.status("git").state == "disabled"
        await made.change(configured("git"))
        assert await client.tools() == ["git__log"]


async def test_a_server_of_the_same_address_keeps_its_tools_while_it_starts_anew():
    async with gateway(configured("fs")) as made:
        client = await connected(made)
        made.scripted["fs"].refuse = "broken"
        await made.change(configured("fs", settings={"fs": {"prefix": "my_"}}))
        assert await client.tools() == ["my_read", "my_write"]
        assert made.catalog.status("fs").tools == 2


async def test_a_call_under_way_ends_as_it_would_have_when_its_server_goes():
    async with gateway(configured("fs", "git")) as made:
        client = await connected(made)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(name, arguments):
            begun.set()
            await go_on.wait()
            return {"content": [], "structuredContent": {"done": True}}

        made.scripted["fs"].answer = slow
        calling = asyncio.create_task(client.call("fs__read"))
        await begun.wait()
        await made.change(configured("git"))
        assert await client.tools() == ["git__log"]
        assert not calling.done()
        go_on.set()
        assert (await calling)["structuredContent"] == {"done": True}
        await until(lambda: not made.server_pool._leaving)


async def test_the_end_of_the_gateway_does_not_wait_for_a_server_that_is_leaving():
    begun = asyncio.Event()

    async def forever(name, arguments):
        begun.set()
        await asyncio.Event().wait()

    async with gateway(configured("fs")) as made:
        client = await connected(made)
        made.scripted["fs"].answer = forever
        calling = asyncio.create_task(client.call("fs__read"))
        await begun.wait()
        await made.change(configured())
        leaving = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - leaving < made.config.gateway.call_timeout_s / 2
    calling.cancel()
    await asyncio.wait((calling,))


async def test_a_server_may_not_take_the_name_of_one_that_a_plugin_published(capsys):
    async with gateway(configured("fs")) as made:
        made.own_tools.publish(
            "greeter", "git", [MetaTool(definition={"name": "hello", "inputSchema": {"type": "object"}}, call=greet)]
        )
        assert await made.change(configured("fs", "git")) is False
    assert "belongs to the plugin 'greeter'" in capsys.readouterr().err


async def test_clients_hear_of_resources_and_prompts_that_come_and_go():
    async with gateway(configured("fs")) as made:
        client = await connected(made)
        made.scripted["git"].offers = {"tools": {}, "resources": {}}
        await made.change(configured("fs", "git"))
        note = ("notifications/resources/list_changed", {})
        await until(lambda: note in client.link.notified)
        client.link.notified.clear()
        await made.change(configured("fs"))
        assert note in client.link.notified
        assert ("notifications/prompts/list_changed", {}) not in client.link.notified


# Files


@asynccontextmanager
async def following(made, files, monkeypatch, marks=MappingProxyType({}), known=None):
    monkeypatch.setattr("pml_settings.changes.POLL_S", 0.02)
    monkeypatch.setattr("pml_settings.changes.SETTLED_S", 0.01)
    times: list[int] = []
    asked = asyncio.Event()
    reload = made.reload(lambda: made.config, marks)

    async def now() -> bool:
        times.append(1)
        return True

    reload.now = now
    task = asyncio.create_task(reload.follow(files, known or state_of(files), asked))
    yield times, asked
    task.cancel()
    await asyncio.wait((task,))


async def test_files_are_read_again_when_one_of_them_changes_or_when_asked(tmp_path, monkeypatch):
    one, other = tmp_path / "a.toml", tmp_path / "b.toml"
    one.write_text("a")
    async with gateway(configured("fs")) as made, following(made, [one, other], monkeypatch) as (times, asked):
        await asyncio.sleep(0.1)
        assert times == []
        other.write_text("b")
        await until(lambda: len(times) == 1)
        one.write_text("c")
        await until(lambda: len(times) == 2)
        asked.set()
        await until(lambda: len(times) == 3)


async def test_a_restart_asked_for_while_servers_started_is_done_and_one_from_before_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    restarts.ask(["fs"])
    before, known = restarts.asked(), state_of([restarts.file()])
    restarts.ask(["git"])
    again: list[list[str]] = []

    async def restart(names):
        again.append(names)

    async with gateway(configured("fs", "git")) as made:
        monkeypatch.setattr(made.server_pool, "restart", restart)
        async with following(made, [restarts.file()], monkeypatch, before, known):
            await until(lambda: again == [["git"]])


async def test_a_file_that_vanishes_and_comes_back_is_read_when_it_is_back(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.toml"
    path.write_text("a")
    async with gateway(configured("fs")) as made, following(made, [path], monkeypatch) as (times, _):
        path.unlink()
        said: list[str] = []

        def heard() -> str:
            said.append(capsys.readouterr().err)
            return "".join(said)

        await until(lambda: "a configuration file is gone" in heard())
        assert times == []
        path.write_text("b")
        await until(lambda: times == [1])
