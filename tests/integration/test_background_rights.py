"""Work that goes on without its client: only as long as the key counts that it was begun with, and only so often."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import pml_access.plugin
from pml_access.keys import Keys
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_executor_dag import Dag, tool
from pml_executor_dbos import Dbos
from pml_executor_dbos import hooks as durable
from pml_hookspecs import ExecutionId, RunOptions, Scope, Session, Status, Step, ToolCall, Workflow
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_store_sqlite import Settings, SqliteStore
from pml_testing.fakes import FakeServices
from pml_testing.gateway import provided
from pml_transport_stdio import Stdio

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)
ADD_HOLD_ADD = Workflow(
    id="plan",
    tasks=(
        ToolCall(id="first", tool="one:add", arguments={"text": "first"}),
        ToolCall(id="hold", tool="one:hold", depends_on=("first",)),
        ToolCall(id="second", tool="one:add", arguments={"text": "second"}, depends_on=("hold",)),
    ),
    durable=True,
)
SOON_S, POLL_S = 120, 0.05
MOST = 2
"""Attempts to go on with a plan."""


def config_of(folder: Path) -> Config:
    """One server with a notebook; everything that is kept is kept in ``folder``."""
    script = Path(__file__).with_name("notes_server.py")
    return Config(
        gateway=GatewaySettings(log_level="error", store="sqlite", max_resumes=MOST),
        servers={"one": ServerSettings(command=sys.executable, args=(str(script), str(folder / "notes.txt")))},
        tables={"dbos": {"database": str(folder / "durable.db")}, "sqlite": {"path": str(folder / "history.db")}},
        sources=(Source("test", {"gateway": {"store": "sqlite"}}),),
    )


def found() -> list[registry.Record]:
    """The plugins."""
    return [
        registry.provide("pml.transport", "stdio", Stdio),
        registry.provide("pml.store", "sqlite", SqliteStore),
        registry.provide("pml.executor", "dag", Dag),
        registry.provide("pml.executor", "dbos", Dbos),
        registry.provide("pml.plugins", "dbos", durable),
        registry.provide("pml.plugins", "workflow_tool", tool),
        provided("guards", "access", pml_access.plugin),
    ]


@asynccontextmanager
async def gateway(folder):
    """One in this process."""
    async with Gateway(config_of(folder), None, found()) as started:
        await started.servers_tried()
        yield started


async def key_of(started):
    """A key, and the session of who comes with it."""
    services = started.assembly.services("access")
    key, _ = await Keys(services).create({"kind": "user", "holder": "alice"}, by="test")
    return key.id, services.session(key.identity())


async def revoke(started, id):
    await Keys(started.assembly.services("access")).revoke(id, by="test")


async def ended(started, id):
    """The record, once it has ended."""
    async with asyncio.timeout(SOON_S):
        while True:
            record = await started.store.executions.get(id, EVERYONE)
            if record is not None and record.status not in ("pending", "running"):
                return record
            await asyncio.sleep(0.02)


def notes(folder):
    """What the server has written."""
    file = folder / "notes.txt"
    return file.read_text().split() if file.exists() else []


async def held(folder):
    """Wait until the plan is in the middle."""
    async with asyncio.timeout(SOON_S):
        while not (folder / "notes.held").exists():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def test_a_plan_whose_key_is_revoked_ends_at_its_next_task(tmp_path, monkeypatch):
    monkeypatch.setattr("pml_background.key_recheck.FRESH_S", 0.0)
    async with gateway(tmp_path) as started:
        key, session = await key_of(started)
        id = await started.background.start(ADD_HOLD_ADD, session, RunOptions())
        await held(tmp_path)
        await revoke(started, key)
        (tmp_path / "notes.go").touch()
        record = await ended(started, id)
        assert record.status is not Status.OK
        assert "was revoked" in json.dumps(record.response, default=dict)
        assert notes(tmp_path) == ["first"]


async def test_a_durable_plan_is_not_gone_on_with_when_its_key_was_revoked_meanwhile(tmp_path):
    async with gateway(tmp_path) as started:
        key, session = await key_of(started)
        id = await started.background.start(ADD_HOLD_ADD, session, RunOptions())
        await held(tmp_path)
    async with SqliteStore(Settings(path=str(tmp_path / "history.db"))) as store:
        await Keys(FakeServices("access", store=store)).revoke(key, by="test")
    (tmp_path / "notes.go").touch()
    async with gateway(tmp_path) as started:
        record = await ended(started, id)
        assert (record.status, record.failure.code) == (Status.DENIED, "access.ended")
        assert "was revoked" in record.failure.message
    async with gateway(tmp_path) as started:
        await started.background._see_to_orphans()
        assert (await ended(started, id)).status is Status.DENIED
        assert notes(tmp_path) == ["first"]


KILLS = Workflow(
    id="plan",
    tasks=(ToolCall(id="only", tool="one:hold", step=Step(idempotency_key="again")),),
    durable=True,
)


def killed_in_the_middle(folder: Path, *, begin: bool) -> str:
    """A process that goes on with the plan, or begins it, and is killed as the plan's task runs; what it printed."""
    (folder / "notes.held").unlink(missing_ok=True)
    words = [sys.executable, __file__, str(folder), "begin" if begin else "-"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        told = process.stdout.readline()
        while not (folder / "notes.held").exists():
            assert process.poll() is None
            time.sleep(POLL_S)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return told.strip()


async def test_a_plan_that_kills_its_gateway_each_time_is_given_up(tmp_path):
    id = ExecutionId(await asyncio.to_thread(killed_in_the_middle, tmp_path, begin=True))
    for _ in range(MOST):
        await asyncio.to_thread(killed_in_the_middle, tmp_path, begin=False)
    (tmp_path / "notes.held").unlink()
    async with gateway(tmp_path) as started:
        record = await ended(started, id)
        assert (record.status, record.failure.code) == (Status.ERROR, "execution.given_up")
        assert f"{MOST} times" in record.failure.message
    async with gateway(tmp_path) as started:
        await started.background._see_to_orphans()
        assert (await ended(started, id)).failure.code == "execution.given_up"
        assert (await started.store.documents.find("core.runs")).total == 0
    assert not (tmp_path / "notes.held").exists()


async def main(folder: Path, *, begin: bool) -> None:
    """The process to be killed."""
    async with Gateway(config_of(folder), None, found()) as started:
        await started.servers_tried()
        id = await started.background.start(KILLS, Session(key="test"), RunOptions()) if begin else "-"
        print(id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), begin=sys.argv[2] == "begin"))
