"""What would wait for a human is told beforehand, and nobody is asked."""

from __future__ import annotations

import pytest

from pml_approvals import plugin
from pml_approvals.requests import Requests
from pml_approvals.settings import Settings
from pml_approvals.wrapper import Approvals
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import CodeRun, Phase, Session, Step, ToolCall, Workflow
from pml_kit.offers import STATIC_CHECKS
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry
from pml_testing.foresight import AskerContract
from pml_testing.gateway import ScriptedServer, running

pytestmark = pytest.mark.anyio
CATALOG = FakeCatalog(
    [
        entry("db:read", annotations={"readOnlyHint": True}),
        entry("db:drop", annotations={"destructiveHint": True}),
        entry("db:add", annotations={"destructiveHint": False}),
        entry("db:mystery"),
    ]
)
DESTROYS, UNSAID = "policy: it says that it may destroy", "policy: it does not say that it only reads"
ALWAYS = "policy: it always needs approval"
UNLISTED = "policy: its server does not list it, so it may destroy"


@pytest.fixture
async def services():
    async with MemoryStore() as store:
        yield FakeServices(catalog=CATALOG, store=store)


def call(tool="drop", step=None, **arguments):
    return ToolCall(id="a", tool=f"db:{tool}", arguments=arguments, step=step or Step())


def above():
    return FakeRun(session=Session(key="k", principal="alice"), dry_run=True)


class TestAskerContract(AskerContract):
    @pytest.fixture
    async def asker(self, services):
        return Approvals(services, Settings())

    @pytest.fixture
    def asked_about(self):
        return call(table="x")


@pytest.mark.parametrize(
    ("table", "task", "why"),
    [
        ({}, call(), DESTROYS),
        ({}, call("read"), ""),
        ({}, call("add"), ""),
        ({}, call("mystery"), ""),
        ({}, call("nowhere"), UNLISTED),
        ({"effects": "none"}, call("nowhere"), ""),
        ({"effects": "unknown"}, call("mystery"), UNSAID),
        ({"effects": "unknown"}, call("add"), ""),
        ({"effects": "none"}, call(), ""),
        ({"require": ("db:r*",)}, call("read"), ALWAYS),
        ({"trust": ("db:*",)}, call(), ""),
        ({"require": ("db:drop",), "trust": ("db:*",)}, call(), ALWAYS),
        ({}, call("read", Step(approve=True)), "the plan says so"),
        ({}, CodeRun(id="a", language="python", source="1", step=Step(approve=True)), "the plan says so"),
        ({}, CodeRun(id="a", language="python", source="1"), ""),
        ({}, Workflow(id="a", tasks=()), ""),
    ],
)
async def test_the_reason_is_that_of_the_policy(services, table, task, why):
    assert await Approvals(services, Settings(**table)).would_ask(task, above()) == why


async def test_what_was_approved_asks_nobody_and_stays_approved(services):
    wrapper, run = Approvals(services, Settings()), above()
    requests = Requests(services, Settings())
    await wrapper(call(table="x"), FakeRun(session=run.session, parent=run.id), None)
    (waiting,) = await requests.all(None, 10)
    assert await wrapper.would_ask(call(table="x"), run) == f"{DESTROYS}; pml approvals approve {waiting.id}"
    await requests.answer(waiting, "approved", by="human")
    for _ in range(2):
        assert await wrapper.would_ask(call(table="x"), run) == ""
    assert await wrapper.would_ask(call(table="y"), run) == DESTROYS
    (kept,) = await requests.all(None, 10)
    assert kept.state == "approved"
    assert run.asked == []


async def test_what_was_refused_is_told_as_refused(services):
    wrapper, run, requests = Approvals(services, Settings()), above(), Requests(services, Settings())
    await wrapper(call(), FakeRun(session=run.session, parent=run.id), None)
    (waiting,) = await requests.all(None, 10)
    await requests.answer(waiting, "denied", by="human")
    assert await wrapper.would_ask(call(), run) == "a human has refused exactly this"


class Wrapper:
    """Asks in its own way, or fails to tell."""

    phase = Phase.AUTHORIZE

    def __init__(self, why):
        self.why = why

    def __call__(self, task, run, call_next):
        return call_next(task, run)

    async def would_ask(self, task, above):
        if isinstance(self.why, Exception):
            raise self.why
        return self.why


class Silent(Wrapper):
    would_ask = None


def hook(name, wrapper):
    import types

    from pml_hookspecs import hookimpl

    module = types.ModuleType(name)

    @hookimpl
    def pml_wrap_executor(services):
        return [wrapper]

    module.pml_wrap_executor = pml_wrap_executor
    return {("hooks", name): module}


async def test_the_gateway_tells_of_all_wrappers_that_would_ask():
    tools = [{"name": "drop", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}]
    plugins = {("hooks", "approvals"): plugin, **hook("four_eyes", Wrapper("two people have to look"))}
    plugins |= {**hook("broken", Wrapper(RuntimeError("no"))), **hook("silent", Silent(""))}
    server = ScriptedServer(tools)
    async with running({"db": server}, plugins=plugins) as made:
        services = made.assembly.services("approvals")
        told = await services.find(STATIC_CHECKS).would_ask(ToolCall(id="a", tool="db__drop"), above())
        assert await services.find(STATIC_CHECKS).would_ask(ToolCall(id="a", tool="db:unknown"), above()) == []
    assert told == [
        "the plugin 'broken' cannot tell whether somebody has to look; see the gateway's log",
        "two people have to look",
        DESTROYS,
    ]
    assert server.calls == []
