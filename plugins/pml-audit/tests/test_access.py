"""Rows of access that no wrapper sees."""

from __future__ import annotations

import asyncio

import pytest
from audit_kit import ALICE, call, gateway

from pml_audit import access
from pml_audit.access import Access
from pml_audit.recorder import Recorder
from pml_audit.settings import Settings
from pml_audit.verify import verify
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import RpcError, Session
from pml_kit.offers import ACCESS, AccessEvent
from pml_mcp.clients.mcp_tasks import EXTENSION
from pml_testing.fakes import FakeServices
from pml_testing.gateway import Client

pytestmark = pytest.mark.anyio
STRANGER = AccessEvent(
    kind="denied", target="POST /mcp", address="192.0.2.7:4711", code="access.unauthenticated", message="No key"
)


@pytest.fixture
async def noting(folder):
    recording = Recorder(FakeServices("audit", store=MemoryStore()), Settings())
    yield Access(recording), recording
    await recording.close()


def from_(address, **more):
    return AccessEvent(kind="denied", target="POST /mcp", address=address, code="c", message="No key", **more)


async def test_a_stranger_who_is_refused_has_a_row_at_once(noting, rows):
    noted, _ = noting
    await noted(STRANGER)
    (row,) = rows("denied")
    about = {name: row[name] for name in ("principal", "address", "target", "code", "message")}
    assert about == {
        "principal": "unknown",
        "address": "192.0.2.7:4711",
        "target": "POST /mcp",
        "code": "access.unauthenticated",
        "message": "No key",
    }


async def test_the_same_again_is_counted_from_whatever_port_and_others_have_their_own_rows(noting, rows, monkeypatch):
    noted, recording = noting
    for port in range(10):
        await noted(from_(f"[2001:db8::1]:{port}"))
    await noted(from_("[2001:db8::2]:1"))
    assert [row["address"] for row in rows("denied")] == ["[2001:db8::1]:0", "[2001:db8::2]:1"]
    noted.flush()
    await asyncio.wrap_future(recording.sync())
    assert len(rows("denied")) == 2
    monkeypatch.setattr(access, "SILENCE_S", 0.0)
    noted.flush()
    await asyncio.wrap_future(recording.sync())
    last = rows("denied")[-1]
    assert (last["times"], last["address"]) == (9, "[2001:db8::1]:9")
    noted.flush()
    noted.flush()
    await noted(from_("[2001:db8::1]:99"))
    assert "times" not in rows("denied")[-1]


async def test_however_many_places_strangers_come_from_it_stays_bounded_and_all_are_counted(noting, rows, monkeypatch):
    noted, recording = noting
    monkeypatch.setattr(access, "MOST_PLACES", 10)
    for n in range(500):
        await noted(from_(f"198.51.100.{n}:1"))
    noted.flush(all=True)
    await asyncio.wrap_future(recording.sync())
    assert len(rows("denied")) <= 13
    assert sum(row.get("times", 1) for row in rows("denied")) == 500


async def test_what_somebody_known_does_is_never_counted_together(noting, rows):
    noted, _ = noting
    for _ in range(3):
        await noted(from_("stdio", session=ALICE, execution="e1"))
    assert [(r["principal"], r["client"], r["endpoint"], r["execution"]) for r in rows("denied")] == [
        ("alice", "tester/1", "work", "e1")
    ] * 3


async def test_a_key_that_a_stranger_put_into_the_path_is_not_written(folder, rows):
    key = f"pml_{'a' * 16}_{'b' * 52}"
    async with gateway() as made:
        services = made.assembly.services("audit")
        await services.find(ACCESS).report(AccessEvent(kind="denied", target=f"GET /{key}", code="c", message="no"))
        assert len(rows("denied")) == 1
    assert key not in (folder / "audit.jsonl").read_text()
    assert verify(folder).broken is None


async def test_requests_about_tasks_have_rows_as_questions_about_executions_have(folder, rows):
    async with gateway() as made:
        client = Client(made, modern=True, principal="bob", capabilities={"extensions": {EXTENSION: {}}})
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(RpcError):
                await client.request(method, {"taskId": "019abc12-0000-7000-8000-000000000001"})
        assert [(row["target"], row["principal"], row["code"]) for row in rows("refused")] == [
            ("tasks/get", "bob", "task.unknown"),
            ("tasks/cancel", "bob", "task.unknown"),
        ]
        id = await made.assembly.services("audit").start(call("fs:read"), Session(key="s", principal="bob"))
        await client.request("tasks/get", {"taskId": id})
        (row,) = [row for row in rows("query") if row["target"] == "tasks/get"]
        assert (row["principal"], row["execution"]) == ("bob", id)
