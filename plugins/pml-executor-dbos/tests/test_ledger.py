"""The rows, on both databases."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from durable_kit import REQUEST, call, plan

from pml_executor_dbos import Settings
from pml_executor_dbos.connection import DatabaseError
from pml_executor_dbos.ledger import Ledger
from pml_executor_dbos.liveness import Worker
from pml_hookspecs import Failure, RawObject, Status
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio


async def begun(ledger: Ledger, run: str = "r", claim: str = "c") -> None:
    assert await ledger.begin(run, "w", plan(), REQUEST)
    assert await ledger.claim(run, claim, "w") == []


async def test_a_run_is_begun_once(ledger: Ledger) -> None:
    assert await ledger.begin("r", "w", plan(), REQUEST)
    assert not await ledger.begin("r", "other", plan(), REQUEST)
    row = await ledger.run("r")
    assert row is not None
    assert (row.state, row.worker, row.principal, row.intent, row.tasks) == ("running", "w", "ada", "see", 3)
    assert row.request == REQUEST


async def test_a_task_begins_only_under_the_last_claim(ledger: Ledger) -> None:
    await begun(ledger)
    assert await ledger.started("r", "a", 0, "c", call("a"), repeatable=False)
    assert await ledger.claim("r", "d", "other") is not None
    assert not await ledger.started("r", "b", 0, "c", call("b"), repeatable=False)
    assert await ledger.started("r", "b", 0, "d", call("b"), repeatable=False)


async def test_an_outcome_of_the_one_that_lost_the_run_is_kept_unless_somebody_began_again(ledger: Ledger) -> None:
    await begun(ledger)
    for path in ("a", "b"):
        assert await ledger.started("r", path, 0, "c", call(path), repeatable=True)
    await ledger.claim("r", "d", "other")
    assert await ledger.started("r", "b", 0, "d", call("b"), repeatable=True)
    assert await ledger.ended("r", "a", 0, "c", outcome("a", 1))
    assert not await ledger.ended("r", "b", 0, "c", outcome("b", 1))
    assert {row.path: (row.state, row.attempt) for row in await ledger.tasks("r")} == {
        "a": ("ended", 1),
        "b": ("started", 2),
    }


@pytest.mark.parametrize(
    "output", [None, 0, "text \u2028 ü \\u0000", [1, {"a": None}], {"content": [], "n": 12345678901234567890}]
)
async def test_outcomes_come_back_as_they_went(ledger: Ledger, output: object) -> None:
    failure = Failure("x.y", "because", retryable=True, details={"a": [1]})
    given = outcome("a", output, Status.ERROR, failure=failure, cost_usd=0.5)
    await begun(ledger)
    await ledger.started("r", "a", 0, "c", call("a"), repeatable=False)
    await ledger.ended("r", "a", 0, "c", given)
    rows = await ledger.claim("r", "d", "w")
    assert rows is not None
    assert rows[0].outcome == given


async def test_what_a_server_answered_keeps_its_bytes(ledger: Ledger) -> None:
    raw = b'{"n":1.0,  "big":123456789012345678901234567890,"content":[]}'
    await begun(ledger)
    await ledger.started("r", "a", 0, "c", call("a"), repeatable=False)
    await ledger.ended("r", "a", 0, "c", outcome("a", RawObject(raw)))
    (row,) = await ledger.tasks("r")
    assert row.outcome is not None
    assert isinstance(row.outcome.output, RawObject)
    assert row.outcome.output.raw == raw


async def test_of_many_that_take_a_run_one_gets_it(ledger: Ledger, settings: Settings) -> None:
    await begun(ledger)
    others = [Ledger(settings) for _ in range(3)]
    took = await asyncio.gather(*(o.take("r", f"w{i}", from_worker="w") for i, o in enumerate([ledger, *others])))
    for other in others:
        await other.close()
    assert sorted(took) == [False, False, False, True]
    assert await ledger.owners() == {"r": ("running", f"w{took.index(True)}", None)}


async def test_a_cancelled_run_can_be_made_ready_and_taken(ledger: Ledger) -> None:
    await begun(ledger)
    assert not await ledger.ready("r")
    assert await ledger.cancel("r")
    assert not await ledger.cancel("r")
    assert await ledger.claim("r", "d", "w") is None
    assert await ledger.ready("r")
    assert await ledger.take("r", "x")
    assert not await ledger.take("r", "y")


async def test_only_who_has_the_run_finishes_it(ledger: Ledger) -> None:
    await begun(ledger)
    assert not await ledger.finish("r", "wrong", "w", "ended", outcome("p"))
    assert not await ledger.finish("r", None, "other", "ended", outcome("p"))
    assert await ledger.finish("r", "c", "w", "ended", outcome("p", {"a": 1}))
    row = await ledger.run("r")
    assert row is not None
    assert row.outcome == outcome("p", {"a": 1})
    assert not await ledger.finish("r", "c", "w", "ended", outcome("p"))


async def test_what_ended_long_ago_is_forgotten(ledger: Ledger) -> None:
    await begun(ledger)
    await begun(ledger, "open")
    await ledger.started("r", "a", 0, "c", call("a"), repeatable=False)
    await ledger.finish("r", "c", "w", "ended", outcome("p"))
    assert await ledger.prune(1) == []
    assert await ledger.prune(-1) == ["r"]
    assert await ledger.tasks("r") == []
    assert [run.id for run in await ledger.runs()] == ["open"]


async def test_workers_beat_and_leave(ledger: Ledger) -> None:
    worker = Worker("n/1", 0, "m", 7, "b")
    await ledger.beat(worker)
    await ledger.beat(worker)
    assert await ledger.workers() == {"n/1": Worker("n/1", 2, "m", 7, "b")}
    await ledger.leave("n/1")
    assert await ledger.workers() == {}


async def test_one_write_that_fails_fails_no_other(ledger: Ledger) -> None:
    await begun(ledger)
    writes = [ledger.started("r", f"t{i}", 0, "c", call("a"), repeatable=False) for i in range(20)]
    broken = ledger._connection.do(lambda execute: execute("INSERT INTO nowhere VALUES (1)", {}))
    results = await asyncio.gather(*writes[:10], broken, *writes[10:], return_exceptions=True)
    assert isinstance(results.pop(10), DatabaseError)
    assert results == [True] * 20
    assert len(await ledger.tasks("r")) == 20


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "durable.db").write_text("no database" * 100)
    ledger = Ledger(Settings(database=str(tmp_path / "durable.db")))
    with pytest.raises(DatabaseError, match=r"durable\.db.*not a database"):
        await ledger.runs()
    await ledger.close()


async def test_a_server_that_is_away_is_named_without_its_password() -> None:
    ledger = Ledger(Settings(database="postgresql://me:secret@127.0.0.1:1/none"))
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1:1/none") as caught:
        await ledger.runs()
    assert "secret" not in str(caught.value)
    await ledger.close()


async def test_a_lost_connection_to_postgresql_is_made_again(postgres: object) -> None:
    url = postgres.database()  # type: ignore[attr-defined]
    ledger, other = Ledger(Settings(database=url)), Ledger(Settings(database=url))
    await begun(ledger)
    await other._connection.do(
        lambda execute: execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()", {}
        )
    )
    assert await ledger.started("r", "a", 0, "c", call("a"), repeatable=False)
    await ledger.close()
    await other.close()


async def test_the_file_is_the_users_own_and_quick(tmp_path: Path) -> None:
    file = tmp_path / "home" / "durable.db"
    ledger = Ledger(Settings(database=str(file)))
    await begun(ledger)
    await ledger.close()
    assert file.stat().st_mode & 0o77 == 0
    assert file.parent.stat().st_mode & 0o77 == 0
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
