"""Every denial appears in the audit, also of those who never get as far as a task."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx2
import pytest

import pml_access.plugin
import pml_audit.plugin
from pml_access.keys import Keys
from pml_audit.verify import verify
from pml_hookspecs import ExecutionId, Session, Status, ToolCall
from pml_testing.gateway import ScriptedServer, running
from pml_transport_http import Http

pytestmark = pytest.mark.anyio
SECRET = "hunter2-is-no-key-of-ours"
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}
SOON_S = 120


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the audit is."""
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "audit"


@pytest.fixture
def rows(folder):
    """Rows of a kind, read without the code under test."""

    def read(kind):
        path = folder / "audit.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [row for row in map(json.loads, lines) if row["kind"] == kind]

    return read


@asynccontextmanager
async def listening(*, access=True, server=None, **tables):
    """A gateway that listens, and a client of it that says nothing of itself."""
    plugins = {("transport", "http"): Http, ("hooks", "audit"): pml_audit.plugin}
    tables = {"audit": {"poll_s": 0.02}, **tables}
    if access:
        plugins["guards", "access"] = pml_access.plugin
        tables["access"] = {"required": True}
    bound = asyncio.get_running_loop().create_future()
    async with running({"files": server or ScriptedServer(["a"])}, plugins=plugins, tables=tables) as gateway:
        serving = asyncio.create_task(gateway.serve("http://127.0.0.1:0", started=bound.set_result))
        try:
            async with asyncio.timeout(SOON_S), httpx2.AsyncClient(base_url=await bound, headers=ACCEPT) as web:
                yield gateway, web
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def key_of(gateway, holder):
    """A key, with its token."""
    about = {"kind": "user", "holder": holder}
    key, token = await Keys(gateway.assembly.services("access")).create(about, by="test")
    return key, token.text


def bearer(token):
    return {"authorization": f"Bearer {token}"}


async def test_a_caller_without_a_key_leaves_a_row_that_says_from_where(rows, folder):
    async with listening() as (_, web):
        assert (await web.post("/mcp", json=HELLO)).status_code == 401
        (row,) = rows("denied")
        assert (row["principal"], row["target"], row["code"]) == ("unknown", "POST /mcp", "access.unauthenticated")
        assert row["address"].startswith("127.0.0.1:")
        assert "authentication required" in row["message"]
    assert verify(folder).broken is None


@pytest.mark.parametrize("access", [True, False])
async def test_a_token_that_is_no_key_leaves_a_row_without_the_token(rows, folder, access):
    tokens = {} if access else {"http": {"tokens": {"alice": "the-one-that-is-good"}}}
    async with listening(access=access, **tokens) as (_, web):
        assert (await web.post("/mcp", json=HELLO, headers=bearer(SECRET))).status_code == 401
        assert (await web.get(f"/api/x?token={SECRET}", headers=bearer(SECRET))).status_code == 401
    assert {row["target"] for row in rows("denied")} <= {"POST /mcp", "GET /api/x"}
    assert sum(row.get("times", 1) for row in rows("denied")) == 2
    assert SECRET not in (folder / "audit.jsonl").read_text()


async def test_a_key_that_was_revoked_leaves_a_row_of_who_came_with_it(rows):
    async with listening() as (gateway, web):
        key, token = await key_of(gateway, "alice")
        await Keys(gateway.assembly.services("access")).revoke(key.id, by="test")
        assert (await web.post("/mcp", json=HELLO, headers=bearer(token))).status_code == 401
        (row,) = rows("denied")
        assert "revoked" in row["message"]
    assert token.rpartition("_")[2] not in json.dumps(rows("denied"))


async def test_strangers_who_come_again_and_again_are_counted(rows, folder):
    async with listening() as (_, web):
        for _ in range(50):
            await web.post("/mcp", json=HELLO)
        assert len(rows("denied")) == 1
    first, rest = rows("denied")
    assert ("times" in first, rest["times"]) == (False, 49)
    assert verify(folder).broken is None


async def test_a_foreign_web_page_leaves_a_row(rows):
    async with listening() as (_, web):
        answer = await web.post("/mcp", json=HELLO, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        (row,) = rows("denied")
        assert (row["code"], "evil.example" in row["message"]) == ("access.forbidden", True)


async def test_who_is_let_in_leaves_no_denial(rows):
    async with listening() as (gateway, web):
        _, token = await key_of(gateway, "alice")
        assert (await web.get("/healthz")).status_code == 200
        assert (await web.get("/nothing", headers=bearer(token))).status_code == 404
        assert rows("denied") == []


# What goes on with a key that was taken away


class Steps(ScriptedServer):
    """Answers one call after the other, when it may."""

    def __init__(self):
        self.may, self.called = asyncio.Semaphore(0), asyncio.Semaphore(0)

        async def answer(name, arguments):
            self.called.release()
            await self.may.acquire()
            return {"content": []}

        super().__init__(["a"], answer)


async def test_work_in_the_background_ends_when_its_key_is_revoked(rows, monkeypatch):
    monkeypatch.setattr("pml_background.key_recheck.FRESH_S", 0.0)
    server = Steps()
    async with listening(server=server) as (gateway, _):
        services = gateway.assembly.services("access")
        key, _ = await key_of(gateway, "alice")
        session = services.session(key.identity())
        call = ToolCall(id="call", tool="files:a")
        server.may.release()
        assert (await services.run(call, session)).status is Status.OK
        await Keys(services).revoke(key.id, by="test")
        outcome = await services.run(call, session)
        assert (outcome.status, outcome.failure.code) == (Status.DENIED, "access.ended")
        assert "revoked" in outcome.failure.message
        (row,) = rows("denied")
        assert (row["principal"], row["key"], row["target"], row["code"]) == (
            "alice", key.id, "files:a", "access.ended",
        )  # fmt: skip
        assert ExecutionId(row["execution"])


async def test_sessions_without_a_key_are_not_looked_up(rows):
    server = Steps()
    server.may.release()
    async with listening(server=server) as (gateway, _):
        services = gateway.assembly.services("access")
        outcome = await services.run(ToolCall(id="call", tool="files:a"), Session(key="s", principal="schedules"))
        assert outcome.status is Status.OK
