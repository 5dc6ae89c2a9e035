"""Several exposure modes at a time: by endpoint, by key, by hint; and what plugins are told of them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import RpcError, Selection, Session, hookimpl, replace, setting
from pml_kit.offers import VIEWS, View
from pml_kit.system.logs import Logs
from pml_settings.config import EndpointSettings
from pml_testing.gateway import Client, ScriptedServer, ScriptedTransport, configuration, until

pytestmark = pytest.mark.anyio
ALL = ["fs__delete", "fs__read", "fs__write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    most: int = setting(50, "Most tools.", ge=0)


class Everything:
    settings_type = Limits

    def __init__(self, settings=None, services=None) -> None:
        self.most = settings.most
        services.log.bind(mode="all").warning("everything is listed")

    async def select(self, catalog, session):
        return Selection(tuple(e.id for e in catalog if not e.own)[: self.most], shared=True)


class Fitting:
    """Tools whose name the hint has."""

    seen: list = []  # noqa: RUF012 - emptied by each gateway

    def __init__(self, settings=None, services=None) -> None: ...

    @classmethod
    def settings_warnings(cls, settings, views, servers):
        used = (view.endpoint for view in views if view.mode == "fitting" and not view.intent)
        yield from (f"endpoints.{endpoint}.intent: is empty. Say one." for endpoint in used)

    async def select(self, catalog, session):
        self.seen.append(session)
        return Selection(tuple(e.id for e in catalog if session.intent and e.name in session.intent))


class Broken:
    def __init__(self, settings=None, services=None) -> None:
        raise ValueError("no")


class Filtering:
    """What a plugin drops, by name."""

    def __init__(self, *names: str, shared: bool = False) -> None:
        self.names, self.shared = names, shared

    def __call__(self, entry, session):
        return entry.name not in self.names

    @hookimpl
    def pml_filter_tools(self, services):
        return [self]


@asynccontextmanager
async def gateway(*, hooks=None, tables=None, endpoints=None, log=None, mode="all", fs=None, **settings):
    Fitting.seen.clear()
    fs = fs or ScriptedServer(["read", "write", "delete"])
    found = [
        registry.provide("pml.transport", "scripted", ScriptedTransport({"fs": fs})),
        *(
            registry.provide("pml.exposure_mode", name, driver)
            for name, driver in {"all": Everything, "fitting": Fitting, "broken": Broken}.items()
        ),
    ]
    if hooks is not None:
        found.append(registry.provide("pml.plugins", "drops", hooks))
    config = replace(configuration(["fs"], tables, tools_exposure=mode, **settings), endpoints=endpoints or {})
    async with Gateway(config, log, found) as made:
        await made.servers_tried()
        yield made


@pytest.fixture(params=[False, True], ids=["legacy", "modern"])
def modern(request):
    return request.param


async def listed(client, intent="") -> list[str]:
    params = {"_meta": {"pml/intent": intent}} if intent else {}
    return [tool["name"] for tool in (await client.request("tools/list", params))["tools"]]


# By key


async def test_the_mode_and_the_hint_of_a_key_count_more_than_those_of_its_endpoint(modern):
    ops = {"ops": EndpointSettings(tools_exposure="fitting", intent="delete it")}
    async with gateway(endpoints=ops) as made:
        for said, shown in (
            ({}, ALL),
            ({"endpoint": "ops"}, ["fs__delete"]),
            ({"endpoint": "ops", "intent": "read it"}, ["fs__read"]),
            ({"endpoint": "ops", "mode": "all"}, ALL),
            ({"mode": "fitting", "intent": "write it"}, ["fs__write"]),
            ({"mode": "fitting"}, []),
            ({"mode": "meta_only"}, []),
        ):
            assert await listed(Client(made, modern=modern, **said)) == shown, said


async def test_a_keys_mode_that_is_not_installed_is_warned_of_when_it_is_used_and_shows_the_meta_tools(capsys):
    async with gateway() as made:
        assert "Unknown" not in capsys.readouterr().err
        for _ in range(2):
            client = Client(made, mode="sometimes")
            assert await listed(client) == []
            assert client._handler.conversation.session.mode == "meta_only"
    warning = "Unknown tools_exposure mode: sometimes, defaulting to meta_only"
    assert capsys.readouterr().err.count(warning) == 1


async def test_a_keys_mode_that_cannot_be_made_shows_the_meta_tools_and_disturbs_nobody(capsys):
    async with gateway() as made:
        assert await listed(Client(made, mode="broken")) == []
        assert await listed(Client(made)) == ALL
    said = capsys.readouterr().err
    assert "exposure mode cannot be used" in said
    assert "Traceback" not in said


async def test_a_mode_is_told_who_asks_and_a_view_differs_with_all_that_it_may_depend_on():
    async with gateway() as made:
        for said in (
            {},
            {"intent": "read"},
            {"principal": "ada"},
            {"scopes": frozenset({"x"})},
            {"scopes": frozenset({"x", "y"})},
        ):
            await listed(Client(made, mode="fitting", **said))
        await listed(Client(made, mode="fitting"))
        assert [(s.mode, s.principal, s.intent, len(s.scopes)) for s in Fitting.seen] == [
            ("fitting", "local", "", 0),
            ("fitting", "local", "read", 0),
            ("fitting", "ada", "", 0),
            ("fitting", "local", "", 1),
            ("fitting", "local", "", 2),
        ]
        keys = {Client(made, mode=mode)._handler.conversation.session.key for mode in ("fitting", "all", "meta_only")}
        assert len(keys) == 3


# Which lists may be shared


class Scoped(ScriptedServer):
    """Says for whom its list is."""

    def __init__(self, scope, eras):
        super().__init__(["read"], eras=eras)
        self.scope = scope

    async def serve(self, method, params):
        answer = await super().serve(method, params)
        return {**answer, "cacheScope": self.scope} if method == "tools/list" else answer


@pytest.mark.parametrize("scope", ["public", "private"])
@pytest.mark.parametrize("eras", [["modern"], ["legacy", "modern"]])
async def test_no_list_is_for_more_people_than_the_servers_in_it_say(scope, eras):
    async with gateway(fs=Scoped(scope, eras)) as made:
        client = Client(made, modern=True)
        await client.call("fs__read")  # from now on there is a connection that speaks of scopes
        assert (await client.request("tools/list"))["cacheScope"] == scope
        assert (await Client(made, modern=True, mode="meta_only").request("tools/list"))["cacheScope"] == "public"


async def test_only_a_list_that_is_the_same_for_all_clients_of_an_endpoint_may_be_shared():
    async def scope(made, intent="", **said):
        params = {"_meta": {"pml/intent": intent}} if intent else {}
        return (await Client(made, modern=True, **said).request("tools/list", params))["cacheScope"]

    async with gateway() as made:
        assert await scope(made) == "public"
        assert await scope(made, intent="read") == "private"
        assert await scope(made, mode="fitting") == "private"
        assert await scope(made, principal="ada") == "private"
    for shared, told in ((False, "private"), (True, "public")):
        filtering = Filtering("write", shared=shared)
        async with gateway(hooks=filtering) as made:
            assert await scope(made) == told


async def test_a_hint_changes_the_one_list_that_it_comes_with(modern):
    async with gateway(mode="fitting") as made:
        client = Client(made, modern=modern)
        assert await listed(client) == []
        assert await listed(client, "read") == ["fs__read"]
        assert await listed(client) == []


async def test_a_client_that_only_lists_with_hints_is_told_when_what_it_saw_changes():
    server = ScriptedServer(["read", "write"])
    found = [
        registry.provide("pml.transport", "scripted", ScriptedTransport({"fs": server})),
        registry.provide("pml.exposure_mode", "fitting", Fitting),
    ]
    async with Gateway(configuration(["fs"], tools_exposure="fitting"), None, found) as made:
        await made.servers_tried()
        client, other = Client(made), Client(made)
        for one, hint in ((client, "delete"), (other, "read")):
            await one.initialize()
            await listed(one, hint)
        server.change(["read", "write", "delete"])
        await until(lambda: client.link.notified)
        assert await listed(client, "delete") == ["fs__delete"]
        assert other.link.notified == []


# Views


async def test_plugins_see_the_views_that_there_are_and_may_try_others():
    ops = {"ops": EndpointSettings(tools_exposure="nowhere", intent="ops")}
    async with gateway(endpoints=ops, hooks=Filtering("write"), mode="fitting", intent="read") as made:
        views = made.offers.find(VIEWS)
        assert views.endpoints() == [View("default", "fitting", "read"), View("ops", "meta_only", "ops")]

        async def shown(*args, **kwargs):
            return [entry.id for entry in await views.listed(*args, **kwargs)]

        assert await shown("all") == ["fs:delete", "fs:read"]
        assert await shown("all", settings={"most": 1}) == ["fs:delete"]
        assert await shown("all") == ["fs:delete", "fs:read"]
        assert await shown("fitting", intent="delete or write") == ["fs:delete"]
        assert await shown("meta_only") == []
        with pytest.raises(LookupError, match="no exposure mode 'nowhere'"):
            await views.listed("nowhere")
        with pytest.raises(ValueError, match="most"):
            await views.listed("all", settings={"most": -1})
        with pytest.raises(ValueError, match="zzz"):
            await views.listed("all", settings={"zzz": 1})
        assert await listed(Client(made)) == ["fs__read"]


async def test_a_mode_that_is_only_tried_out_says_nothing_of_being_in_use(capsys):
    async with gateway(mode="fitting") as made:
        await made.offers.find(VIEWS).listed("all")
    assert "everything is listed" not in capsys.readouterr().err
    async with gateway(mode="all"):
        pass
    assert "everything is listed" in capsys.readouterr().err


# Told at the start


async def test_the_start_tells_the_mode_of_each_endpoint_and_what_is_doubtful(monkeypatch, capsys):
    monkeypatch.setattr("pml_core.announcement.AFTER_FIRST_LIST_S", 0)
    endpoints = {
        "ops": EndpointSettings(tools_exposure="none_such"),
        "find": EndpointSettings(tools_exposure="fitting"),
    }
    log = Logs("info", "json")
    async with gateway(endpoints=endpoints, log=log) as made:
        await made.announcement.made.wait()
        made.announcement.warn()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (running,) = [line for line in lines if line["event"] == "gateway is running"]
    assert (running["mode"], running["endpoints"]) == ("all", {"ops": "meta_only", "find": "fitting"})
    doubtful = [line for line in lines if line["event"] == "endpoints.find.intent: is empty. Say one."]
    assert [line["level"] for line in doubtful] == ["warning"]


async def test_an_endpoint_that_is_not_there_is_refused():
    async with gateway() as made:
        with pytest.raises(LookupError, match="There is no endpoint 'ops'; configured: none"):
            Client(made, endpoint="ops")
        client = Client(made)
        assert await listed(client) == ALL
        with pytest.raises(RpcError):
            await client.request("nonsense")


class FilterWithReason(Filtering):
    def why(self, entry, session):
        return f"{session.endpoint} has no {entry.name}"


async def test_lists_say_why_they_have_a_tool_or_not():
    ops = {"ops": EndpointSettings(tools_exposure="fitting", intent="delete it")}
    async with gateway(endpoints=ops, hooks=FilterWithReason("write")) as made:
        views = made.offers.find(VIEWS)
        default, of_ops = views.endpoints()

        async def told(tool, view):
            found = await views.explained(tool, view)
            return found.listed, found.why

        assert await told("fs:read", default) == (True, "the mode all picks it")
        assert await told("fs:delete", of_ops) == (True, "the mode fitting picks it")
        unpicked = "the mode fitting does not pick it; a search finds it, and it can be called"
        assert await told("fs:read", of_ops) == (False, unpicked)
        assert await told("fs:write", of_ops) == (False, "drops: ops has no write")
        session = Session(key="k", endpoint="other")
        assert views.refusal("fs:write", session) == "drops: other has no write"
        assert views.refusal("fs:read", session) == ""
        for lost in (views.explained("fs:none", default), views.explained("fs:read", View("x", "nowhere"))):
            with pytest.raises(LookupError):
                await lost


async def test_a_filter_that_says_nothing_or_fails_to_is_named():
    class Failing(Filtering):
        def why(self, entry, session):
            raise ValueError("no")

    for hooks in (Filtering("write"), Failing("write")):
        async with gateway(hooks=hooks) as made:
            assert made.offers.find(VIEWS).refusal("fs:write", Session(key="k")) == "drops drops it"
