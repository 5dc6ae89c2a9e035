"""What people and clients use: commands, the tool, the check, and the look for work."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from durable_kit import REQUEST, Gateway, PlanRun, left

from pml_executor_dbos import Dbos, Settings, hooks
from pml_executor_dbos.commands import check
from pml_executor_dbos.ledger import Ledger
from pml_executor_dbos.presence import Presence, is_work_left
from pml_executor_dbos.settings import LIFE_SIGNS
from pml_hookspecs import Failure, InvalidArguments, Session, Status
from pml_testing.fakes import FakeServices, outcome

pytestmark = pytest.mark.anyio
IDS = ("01a1-first", "01a1-second", "02b2-third")


DOUBT = Failure("durable.in_doubt", "Find out.")
WAITS = outcome("plan", None, Status.INPUT_REQUIRED, failure=DOUBT)


async def filled(settings: Settings, *begun: str) -> Ledger:
    """The second run is paused, with a task in doubt, ``b`` if none is told; the first has ended, the third is run."""
    left(settings, IDS[0], status="SUCCESS", came_to=outcome("plan", {"a": 1}))
    left(settings, IDS[1], None, [("started", id_) for id_ in begun or ("b",)], status="SUCCESS", came_to=WAITS)
    left(settings, IDS[2])
    return Ledger(settings)


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    hooks.pml_commands(parser.add_subparsers())
    return parser.parse_args(["runs", *words])


async def said(settings: Settings, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    arguments = parsed(*words)
    assert await arguments.run_with(arguments, FakeServices("dbos", settings=settings)) == 0
    return capsys.readouterr().out


async def test_runs_are_listed(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = await filled(settings)
    told = json.loads(await said(settings, capsys, "list", "--json"))
    assert {run["id"]: run["state"] for run in told} == dict(zip(IDS, ("ended", "paused", "running"), strict=True))
    assert [run["status"] for run in told if run["state"] == "ended"] == ["ok"]
    (only,) = json.loads(await said(settings, capsys, "list", "--json", "--state", "paused"))
    assert only["id"] == IDS[1]
    table = (await said(settings, capsys, "list", "--long")).splitlines()
    assert table[0].split() == ["id", "state", "status", "began", "tasks", "intent"]
    assert len(table) == 4
    await ledger.close()


async def test_looking_makes_no_file(sqlite: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert await said(sqlite, capsys, "list") == "There are none.\n"
    assert await said(sqlite, capsys, "list", "--json") == "[]\n"
    assert sqlite.file is not None
    assert not sqlite.file.exists()


async def test_a_run_is_shown_by_the_beginning_of_its_id(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = await filled(settings)
    text = await said(settings, capsys, "show", "01a1-s")
    assert "durable.in_doubt: Find out." in text
    assert "in doubt" in text
    told = json.loads(await said(settings, capsys, "show", IDS[1], "--json"))
    assert told["task_states"][0]["state"] == "in doubt"
    assert told["request"] == REQUEST
    await ledger.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "none"), "no durable run 'none'"),
        (("show", "01a1"), "more than one"),
        (("resume", "01a1-f"), "is ended; only what is paused or cancelled"),
        (("cancel", "01a1-f"), "is ended; there is nothing to cancel"),
        (("decide", "02b2", "b", "done"), "is running"),
        (("decide", "01a1-s", "x", "done"), "no task 'x' .* in doubt: b"),
        (("decide", "01a1-s", "b", "done", "--result", "{"), "--result is not JSON"),
    ],
)
async def test_mistakes_are_told(sqlite: Settings, words: tuple[str, ...], message: str) -> None:
    ledger = await filled(sqlite)
    arguments = parsed(*words)
    with pytest.raises(InvalidArguments, match=message):
        await arguments.run_with(arguments, FakeServices("dbos", settings=sqlite))
    await ledger.close()


async def test_cancelled_and_resumed(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = await filled(settings)
    assert "is cancelled" in await said(settings, capsys, "cancel", "02b2")
    assert json.loads(await said(settings, capsys, "resume", "02b2", "--json"))["state"] == "ready"
    await ledger.close()


@pytest.mark.parametrize(
    ("words", "state", "kept"),
    [
        (("repeat",), "waiting", None),
        (("done",), "ended", {"content": []}),
        (
            ("done", "--result", '{"n": 1}'),
            "ended",
            {"content": [{"type": "text", "text": '{"n": 1}'}], "structuredContent": {"n": 1}},
        ),
        (("done", "--result", '"done it"'), "ended", {"content": [{"type": "text", "text": "done it"}]}),
        (("fail",), "ended", "durable.decided_failed"),
    ],
)
async def test_what_is_decided_lets_the_run_go_on(
    sqlite: Settings, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], state: str, kept: Any
) -> None:
    ledger = await filled(sqlite)
    told = json.loads(await said(sqlite, capsys, "decide", "01a1-s", "b", *words, "--json"))
    assert told == {"id": IDS[1], "state": "ready", "in_doubt": []}
    (task,) = await ledger.tasks(IDS[1])
    assert task.state == state
    if kept is not None:
        assert task.outcome is not None
        assert kept in (task.outcome.output, task.outcome.failure and task.outcome.failure.code)
    await ledger.close()


async def test_a_run_goes_on_only_when_nothing_is_in_doubt_any_more(settings: Settings) -> None:
    ledger = await filled(settings, "b", "c")
    tool, _ = hooks.pml_meta_tools(FakeServices("dbos", settings=settings))
    assert tool.call is not None
    asked = {"run_id": IDS[1], "decision": "fail"}
    run = PlanRun("x", session=Session(key="k", principal="ada"))
    assert await tool.call({**asked, "path": "b"}, run) == {"run_id": IDS[1], "state": "paused", "in_doubt": ["c"]}
    assert await tool.call({**asked, "path": "c"}, run) == {"run_id": IDS[1], "state": "ready", "in_doubt": []}
    await ledger.close()


async def test_clients_decide_about_their_own_runs_only(sqlite: Settings) -> None:
    ledger = await filled(sqlite)
    tool, _ = hooks.pml_meta_tools(FakeServices("dbos", settings=sqlite))
    assert tool.call is not None
    assert not tool.listed
    asked = {"run_id": IDS[1], "path": "b", "decision": "done"}
    for other in (Session(key="k", principal="eve"), Session(key="k", scopes=frozenset({"user"}))):
        with pytest.raises(InvalidArguments, match="there is no durable run"):
            await tool.call(asked, PlanRun("x", session=other))
    with pytest.raises(InvalidArguments, match="decision must be one of repeat, done, fail"):
        await tool.call({**asked, "decision": "yes"}, PlanRun("x"))
    system = Session(key="k", principal="root", scopes=frozenset({"system"}))
    assert (await tool.call(asked, PlanRun("x", session=system)))["state"] == "ready"
    await ledger.close()


async def test_there_is_work_only_where_nobody_does_it(sqlite: Settings) -> None:
    assert not is_work_left(sqlite.file)
    other = Presence(sqlite, "other")
    other.hold()
    left(sqlite, "r", executor="other")
    assert not is_work_left(sqlite.file)
    other.release()
    assert is_work_left(sqlite.file), "its gateway is gone"
    ledger = Ledger(sqlite)
    await ledger.cancel("r")
    assert not is_work_left(sqlite.file)
    await ledger.ready("r")
    assert is_work_left(sqlite.file)
    await ledger.close()


def test_a_gateway_is_there_while_its_process_lives_and_gone_when_it_is_killed(sqlite: Settings) -> None:
    code = (
        "import sys, time; from pml_executor_dbos import Settings; from pml_executor_dbos.presence import Presence\n"
        f"held = Presence(Settings(database={sqlite.database!r}), 'other'); held.hold(); print('held', flush=True)\n"
        "time.sleep(600)"
    )
    mine = Presence(sqlite, "me")
    mine.hold()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert mine.gone(["me", "other"]) == set()
        process.kill()
    assert mine.gone(["me", "other"]) == {"other"}
    mine.release()
    folder = Path(f"{sqlite.database}.gateways")
    (folder / "old").touch()
    (folder / "new").touch()
    os.utime(folder / "old", (0, 0))
    mine.hold()
    assert sorted(file.name for file in folder.iterdir()) == ["me", "new"]
    mine.release()


def test_on_postgresql_a_gateway_without_a_connection_gets_a_lease(shared: str) -> None:
    settings = Settings(database=shared, heartbeat_s=0.05)
    mine, other = Presence(settings, "me"), Presence(settings, "other")
    mine.hold()
    other.hold()
    assert mine.gone(["other"]) == set()
    released_at = time.monotonic()
    other.release()
    # PostgreSQL takes the lock from it when it notices.
    while mine.gone(["other"]) != {"other"}:
        assert time.monotonic() < released_at + 60
        time.sleep(settings.lease / 10)
    assert time.monotonic() >= released_at + settings.lease
    mine.release()


async def test_a_gateway_without_work_does_not_bring_dbos_up(sqlite: Settings) -> None:
    gateway = Gateway(sqlite)
    (life,) = hooks.pml_lifespan(gateway)
    async with life:
        await asyncio.sleep(hooks.QUIET_S + 4 * sqlite.heartbeat_s)
        assert not gateway.executor.is_up
    assert sqlite.file is not None
    assert not sqlite.file.exists()
    await gateway.stop()


async def test_a_gateway_takes_up_what_is_left_when_it_starts(settings: Settings) -> None:
    ledger = await filled(settings)
    gateway = Gateway(settings)
    (life,) = hooks.pml_lifespan(gateway)
    async with life, asyncio.timeout(20):
        while (row := await ledger.run(IDS[2])) is None or row.state != "ended":  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.01)
    assert [task.id for task in gateway.runs[0].dispatched] == ["a", "b", "c"]
    await gateway.stop()
    await ledger.close()


async def test_trouble_with_the_database_is_logged_once_and_does_not_stop_the_gateway(tmp_path: Any) -> None:
    (tmp_path / "durable.db").write_text("no database" * 100)
    gateway = Gateway(Settings(database=str(tmp_path / "durable.db"), heartbeat_s=0.05))
    (life,) = hooks.pml_lifespan(gateway)
    async with life:
        await asyncio.sleep(hooks.QUIET_S + 0.3)
        assert not gateway.tasks[0].done()
    await gateway.stop()
    assert [line[0] for line in gateway.log.lines] == ["warning"]


def test_without_the_executor_the_hooks_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dbos, "latest", None)

    async def live() -> None:
        (life,) = hooks.pml_lifespan(FakeServices("dbos"))
        async with life:
            pass

    asyncio.run(live())


async def test_the_doctor_says_what_waits(settings: Settings) -> None:
    assert (await check(settings)).ok
    ledger = await filled(settings)
    found = await check(settings)
    assert (found.ok, found.detail) == (False, "1 ended, 1 paused, 1 running")
    assert "pml runs list --state paused" in found.remedy
    await ledger.close()


async def test_the_doctor_names_a_server_that_is_away() -> None:
    found = await check(Settings(database="postgresql://me:secret@127.0.0.1:1/none"))
    assert not found.ok
    assert "127.0.0.1:1/none" in found.detail
    assert "secret" not in found.detail


@pytest.mark.parametrize(
    ("given", "url", "file"),
    [
        ("", "sqlite:////home/pml/durable.db", "/home/pml/durable.db"),
        ("/x/y.db", "sqlite:////x/y.db", "/x/y.db"),
        ("sqlite:////x/y.db", "sqlite:////x/y.db", "/x/y.db"),
        ("postgres://h/d", f"postgresql://h/d?{urlencode(LIFE_SIGNS)}", None),
        ("postgres://u:%40@h:1/d", f"postgresql://u:%40@h:1/d?{urlencode(LIFE_SIGNS)}", None),
        ("postgres://h:1,g/d", f"postgresql:///d?{urlencode(LIFE_SIGNS)}&host=h%2Cg&port=1%2C", None),
        ("postgresql://u:p@h/d?x=1", "postgresql://u:p@h/d?x=1", None),
    ],
)
def test_where_the_database_is(monkeypatch: pytest.MonkeyPatch, given: str, url: str, file: str | None) -> None:
    monkeypatch.setenv("PML_HOME", "/home/pml")
    settings = Settings(database=given)
    assert (settings.url, settings.file and str(settings.file)) == (url, file)


def test_the_lease_is_at_least_three_heartbeats() -> None:
    assert Settings(heartbeat_s=5).lease == 15
    assert Settings(heartbeat_s=5, lease_s=10).lease == 15
    assert Settings(heartbeat_s=5, lease_s=60).lease == 60


def test_the_shim_for_old_sqlite_does_what_new_sqlite_does() -> None:
    from pml_executor_dbos.workflow import _unixepoch

    connection = sqlite3.connect(":memory:")
    connection.create_function("unixepoch", -1, _unixepoch)
    whole, fraction = connection.execute("SELECT unixepoch(), unixepoch('subsec')").fetchone()
    connection.close()
    assert isinstance(whole, int)
    assert isinstance(fraction, float)
    assert 0 <= fraction - whole < 2


def test_what_comes_back_after_the_end_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pml_executor_dbos import workflow

    engine = workflow._sqlite_engine(f"sqlite:///{tmp_path / 'durable.db'}")
    monkeypatch.setattr(workflow, "_engines", [engine])
    monkeypatch.setattr(workflow.DBOS, "destroy", lambda: None)
    with engine.connect() as before:
        kept = before.connection.dbapi_connection
    assert kept.execute("SELECT 1").fetchone() == (1,)
    with engine.connect() as meanwhile:
        lent = meanwhile.connection.dbapi_connection
        workflow.shut_down()
    with engine.connect() as after:
        opened = after.connection.dbapi_connection
    for connection in (kept, lent, opened):
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
