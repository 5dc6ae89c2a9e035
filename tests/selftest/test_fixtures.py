"""Every fixture, used as the author of a plugin would: in a file of tests outside of this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAD = """
import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import (
    ExecutionQuery, ExecutionRecord, Failure, Outcome, Phase, RpcError, Scope, Selection, Session, Status, ToolCall,
    hookimpl,
)

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)
"""
GUARD = """
class Guard:
    phase = Phase.AUTHORIZE

    async def __call__(self, task, run, call_next):
        if isinstance(task, ToolCall) and task.arguments.get("path") == "/etc/passwd":
            failure = Failure("policy.denied", "Not that file.")
            now = datetime.now(UTC)
            return Outcome(task_id=task.id, status=Status.DENIED, started_at=now, duration_ms=0, failure=failure)
        return await call_next(task, run)


class Policy:
    @hookimpl
    def pml_wrap_executor(self, services):
        return [Guard()]


class FirstOnly:
    def __init__(self, settings=None, services=None):
        pass

    async def select(self, catalog, session):
        return Selection(tuple(entry.id for entry in catalog)[:1])
"""
CALCULATOR = '''
CALCULATOR = """
    import os

    total = 0

    def add(number: int, note: str = "") -> dict:
        \\"""Add to the total.\\"""
        global total
        print("a stray print")
        total += number
        return {"total": total, "pid": os.getpid()}

    def refuse():
        raise PermissionError("not today")

    def _hidden():
        return 1
"""
'''


@pytest.fixture
def run(tmp_path):
    """Runs a file of tests in a folder of its own; how it ended, and what it said."""

    def run(tests, *options, name="test_mine.py"):
        (tmp_path / name).write_text(HEAD + tests, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *options, name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def passes(run, tests, count, *options):
    status, said = run(tests, *options)
    assert status == 0, said
    assert f"{count} passed" in said


def test_catalog_session_and_services_are_what_a_plugin_sees(run):
    tests = """
async def test_they_fit_together(catalog, session, services, store):
    assert services.catalog is catalog
    assert services.store is store
    (hit, *_) = await catalog.search("read thing number 0", limit=3, session=session)
    assert catalog.get(hit.id) is not None
    services.log.warning("careful", tool=hit.id)
    assert services.log.lines == [("warning", "careful", {"tool": hit.id})]


async def test_a_store_remembers(store, services):
    started_at = datetime.now(UTC)
    for n in range(500):
        record = ExecutionRecord(id=f"{n:03}", kind="tool", target="a:b", principal="me", status="ok",
                                 started_at=started_at + timedelta(seconds=n))
        await services.store.executions.put(record)
    assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 500
    assert await store.documents.put("mine.notes", "a", {"n": 1}) == 1


async def test_each_test_has_a_store_of_its_own(store):
    assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 0
"""
    passes(run, tests, 3)


def test_a_gateway_runs_with_the_plugins_given_and_no_others(run):
    tests = (
        GUARD
        + """
async def test_a_policy(gateway, store):
    async with gateway(plugins=[Policy()]) as client:
        assert await client.tools() == ["files__read_file", "files__write_file"]
        refused = await client.call("files__read_file", {"path": "/etc/passwd"})
        assert refused["isError"]
        assert "Not that file." in refused["content"][0]["text"]
        assert "isError" not in await client.call("files__read_file", {"path": "a"})
    (newest, denied) = (await store.executions.find(ExecutionQuery(scope=EVERYONE))).items
    assert (newest.status, denied.status) == (Status.OK, Status.DENIED)


async def test_a_mode_is_in_use_because_it_is_given(gateway):
    async with gateway(plugins=[FirstOnly], servers={"b": ["two", "one"], "a": ["three"]}) as client:
        assert await client.tools() == ["a__three"]
        assert client.gateway.config.gateway.tools_exposure == "first_only"


async def test_a_driver_under_a_name(gateway):
    async with gateway(plugins=[("exposure_mode", "mine", FirstOnly())], servers={"a": ["one", "two"]}) as client:
        assert await client.tools() == ["a__one"]


async def test_an_installed_plugin_by_its_name_and_its_settings(gateway):
    async with gateway(plugins=["meta_only"], settings={"meta_only": {}}) as client:
        assert await client.tools() == []


async def test_several_clients(gateway):
    async with gateway(who={"principal": "alice"}) as alice:
        bob = await alice.another(principal="bob")
        assert await bob.tools() == await alice.tools()
        modern = await alice.another(modern=True)
        assert await modern.tools() == await alice.tools()


class Watching:
    def __init__(self, settings=None, services=None):
        self.names = []

    def started(self, span):
        pass

    def ended(self, ended):
        self.names.append(ended.span.name)

    async def flush(self):
        pass


async def test_a_tracer_is_in_use_because_it_is_given(gateway):
    watching = Watching()
    async with gateway(plugins=[watching]) as client:
        await client.call("files__read_file")
    assert watching.names == ["tools/call"]
"""
    )
    passes(run, tests, 6)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("plugins", "servers", "problem"),
    [
        ([3], None, "is no plugin"),
        (["no_such_plugin"], None, "no plugin 'no_such_plugin' is installed; installed are: "),
        ([], {"x": "carrier-pigeon:coop"}, "no transport 'carrier-pigeon' is installed or given in plugins"),
    ],
)
async def test_what_a_gateway_cannot_be_made_of_is_said(gateway, plugins, servers, problem):
    with pytest.raises((TypeError, LookupError), match=problem):
        async with gateway(plugins, servers):
            raise AssertionError


def test_a_script_is_a_server_in_a_process_of_its_own(run):
    tests = (
        CALCULATOR
        + """
import os
import signal


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_its_functions_are_tools(gateway, stdio_server):
    async with gateway(servers={"calc": stdio_server(CALCULATOR)}) as client:
        listed = (await client.request("tools/list"))["tools"]
        assert [tool["name"] for tool in listed] == ["calc__add", "calc__refuse"]
        assert listed[0]["description"] == "Add to the total."
        assert listed[0]["inputSchema"] == {
            "type": "object",
            "properties": {"number": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["number"],
        }
        assert (await client.call("calc__add", {"number": 2}))["structuredContent"]["total"] == 2
        answer = (await client.call("calc__add", {"number": 3}))["structuredContent"]
        assert answer["total"] == 5
        assert answer["pid"] != os.getpid() and not gone(answer["pid"])
    assert gone(answer["pid"])


async def test_what_a_function_raises_is_an_error_of_the_tool(gateway, stdio_server):
    async with gateway(servers={"calc": stdio_server(CALCULATOR)}) as client:
        refused = await client.call("calc__refuse")
        assert refused["isError"] and refused["content"][0]["text"] == "PermissionError: not today"
        assert (await client.call("calc__add", {"wrong": 1}))["isError"]


def test_other_clients_can_be_given_it(stdio_server):
    server = stdio_server(CALCULATOR, name="calc")
    entry = server.config["mcpServers"]["calc"]
    assert [entry["command"], *entry["args"]] == server.command
    assert server.address.startswith("stdio:")


def test_a_script_without_tools_is_a_mistake(stdio_server):
    with pytest.raises(ValueError, match="defines no function"):
        stdio_server("x = 1")
"""
    )
    passes(run, tests, 4)


def test_time_stands_still_until_it_is_moved(run):
    tests = """
START = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_clock_of_the_wall(frozen_clock):
    for _ in range(2):
        assert datetime.now(UTC) == frozen_clock.now == START
        assert (time.time(), time.time_ns()) == (START.timestamp(), int(START.timestamp()) * 10**9)
        import datetime as module
        assert module.datetime.now(UTC) == START
    assert frozen_clock.advance(90) == datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC) == datetime.now(UTC)
    frozen_clock.advance(days=1)
    assert (datetime.now(UTC) - START).total_seconds() == 86_490
    frozen_clock.move_to(datetime(2020, 2, 29, 12, tzinfo=UTC))
    assert datetime.now(UTC).isoformat() == "2020-02-29T12:00:00+00:00"
    with pytest.raises(ValueError, match="move_to"):
        frozen_clock.advance(-1)
    with pytest.raises(ValueError, match="time zone"):
        frozen_clock.move_to(datetime(2020, 1, 1))


def test_times_are_ordinary_ones(frozen_clock):
    import json, pickle
    now = datetime.now(UTC)
    assert type(now).__module__ == "datetime" and type(now).__name__ == "datetime"
    assert isinstance(now, datetime) and isinstance(datetime(2026, 1, 1), datetime)
    assert pickle.loads(pickle.dumps(now)) == now
    assert datetime.fromisoformat("2026-01-01T00:00:00+00:00") == START


async def test_timers_that_have_become_due_fire(frozen_clock):
    waiting = asyncio.ensure_future(asyncio.sleep(3600))
    limited = asyncio.timeout(7200)
    await asyncio.sleep(0)
    frozen_clock.advance(3599)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    frozen_clock.advance(1)
    await asyncio.wait_for(waiting, 5)


async def test_the_gateway_keeps_this_time(frozen_clock, gateway, store):
    async with gateway() as client:
        await client.call("files__read_file")
        frozen_clock.advance(hours=3)
        await client.call("files__read_file")
    late, early = (await store.executions.find(ExecutionQuery(scope=EVERYONE))).items
    assert late.started_at - early.started_at == timedelta(hours=3)


def test_afterwards_time_goes_on():
    assert abs(datetime.now(UTC).timestamp() - time.time()) < 5
    assert time.time() != time.time() or datetime.now(UTC).year > 2000
    from datetime import datetime as real
    assert datetime is real and type(real) is type
    import pml_core.kernel.recorder, pml_testing.fakes
    assert pml_testing.fakes.datetime is real
"""
    passes(run, tests, 5)


ORDERS = """
ORDERS = \"""
    def find(id: int) -> dict:
        if id < 0:
            raise ValueError("no such order")
        return {"id": id, "state": "on its way"}
\"""


async def test_orders(gateway, recorded, stdio_server):
    async with gateway(servers={"crm": recorded("orders.jsonl", stdio_server(ORDERS).address)}) as client:
        assert await client.tools() == ["crm__find"]
        assert (await client.call("crm__find", {"id": 7}))["structuredContent"]["state"] == "on its way"
        assert (await client.call("crm__find", {"id": -1}))["isError"]
        with pytest.raises(RpcError, match="nothing"):
            await client.call("nothing")
"""
ABSENT = ORDERS.replace("stdio_server(ORDERS).address", "'stdio:no-such-program'")


def test_a_session_is_recorded_once_and_replayed_without_the_server(run, tmp_path):
    status, said = run(ABSENT)
    assert status == 1
    assert "orders.jsonl does not exist; run pytest with --pml-record once to record it" in said
    passes(run, ORDERS, 1, "--pml-record")
    lines = [json.loads(line) for line in (tmp_path / "orders.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {"pml_recordings": 1}
    assert [(line["recording"]["arguments"], line["recording"]["kind"]) for line in lines[2:]] == [
        ({"id": 7}, "result"),
        ({"id": -1}, "error"),
    ]
    passes(run, ABSENT, 1)
    status, said = run(ABSENT.replace('"id": 7', '"id": 8'))
    assert status == 1
    assert "nothing is recorded for crm:find" in said


def test_a_session_without_a_server_cannot_be_recorded(run):
    status, said = run("def test_it(recorded):\n    recorded('a.jsonl')\n", "--pml-record")
    assert status == 1
    assert "a.jsonl cannot be recorded: recorded('a.jsonl', ADDRESS) needs the server's address" in said


def test_secrets_of_the_configuration_are_not_recorded(run, tmp_path):
    tests = """
SERVER = \"""
    def whoami(token: str) -> str:
        return "you are " + token
\"""


class Settings:
    pass


async def test_it(gateway, recorded, stdio_server):
    async with gateway(servers={"crm": recorded("who.jsonl", stdio_server(SERVER).address)}) as client:
        client.gateway.redactor.learn(["s3cr3t-token"])
        assert "s3cr3t-token" in str(await client.call("crm__whoami", {"token": "s3cr3t-token"}))
"""
    passes(run, tests, 1, "--pml-record")
    written = (tmp_path / "who.jsonl").read_text(encoding="utf-8")
    assert "you are" in written
    assert "s3cr3t" not in written


def test_without_what_replays_the_extra_is_named(run, tmp_path):
    """As if pml-replay were not installed: what looks for plugins does not find its metadata."""
    hiding = """
from importlib import metadata
every = metadata.distributions
metadata.distributions = lambda **how: (d for d in every(**how) if d.metadata["Name"] != "pml-replay")
"""
    (tmp_path / "conftest.py").write_text(hiding, encoding="utf-8")
    status, said = run("def test_it(recorded):\n    recorded('a.jsonl')\n")
    assert status == 1
    assert "pip install 'pml-testing[replay]'" in said


def test_fixtures_cost_nothing_where_they_are_not_used(tmp_path):
    (tmp_path / "test_x.py").write_text("def test_x():\n    pass\n", encoding="utf-8")
    count = (
        "import sys, pytest; pytest.main(['-q', '-p', 'no:cacheprovider']);"
        "print('loaded', [m for m in sys.modules if m.partition('.')[0] in ('pml_core', 'pml_testing')])"
    )
    command = [sys.executable, "-P", "-c", count]
    env = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert "loaded ['pml_testing', 'pml_testing.plugin']" in done.stdout, done.stdout + done.stderr
