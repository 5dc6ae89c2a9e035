from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from pml_hookspecs import Scope
from pml_store_sqlite import Settings, SqliteStore, StoreError, schema
from pml_testing.fakes import FakeServices
from pml_testing.records import execution

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)


def at(path, **more):
    return SqliteStore(Settings(path=str(path), **more), FakeServices())


async def refused(path, **more):
    with pytest.raises(StoreError) as caught:
        await at(path, **more).__aenter__()
    return str(caught.value)


def test_importing_it_imports_nothing_heavy():
    code = "import sys, pml_store_sqlite; print([m for m in ('asyncio', 'sqlite3', 'pydantic') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_constructing_it_touches_nothing(tmp_path):
    at(tmp_path / "folder" / "pml.db")
    assert not list(tmp_path.iterdir())


async def test_the_default_file_is_in_the_home_folder_and_for_its_owner_only(tmp_path, monkeypatch):
    monkeypatch.delenv("PML_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    async with SqliteStore() as store:
        await store.executions.put(execution(1))
        health = await store.health()
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / ".pml").iterdir()}
    assert health["path"] == str(tmp_path / ".pml" / "pml.db")
    assert modes == {"pml.db": 0o600, "pml.db-wal": 0o600, "pml.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / ".pml").stat().st_mode) == 0o700


async def test_the_users_pml_folder_can_be_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path / "pml"))
    async with SqliteStore() as store:
        assert (await store.health())["path"] == str(tmp_path / "pml" / "pml.db")


async def test_a_folder_that_exists_keeps_its_mode(tmp_path):
    (tmp_path / "shared").mkdir(mode=0o755)
    async with at(tmp_path / "shared" / "pml.db"):
        pass
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


async def test_a_relative_path_stays_where_it_was_when_the_gateway_changes_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = at("here.db")
    monkeypatch.chdir("/")
    async with store:
        assert (tmp_path / "here.db").exists()


async def test_leaving_folds_everything_into_the_one_file(tmp_path):
    async with at(tmp_path / "pml.db") as store:
        await store.executions.put(execution(1))
        assert await store.executions.get(execution(1).id, EVERYONE)
    assert [p.name for p in tmp_path.iterdir()] == ["pml.db"]


async def test_data_of_a_newer_version_are_refused_with_what_to_do(tmp_path):
    async with at(tmp_path / "pml.db"):
        pass
    with closing(sqlite3.connect(tmp_path / "pml.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    known = schema.BASE + len(schema.STEPS)
    assert await refused(tmp_path / "pml.db") == (
        f"store driver 'sqlite': {tmp_path}/pml.db was written by schema 99, this version knows {known}; "
        "upgrade pml-store-sqlite or set [plugins.sqlite] path to another file"
    )


async def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")
    before = (tmp_path / "other.db").read_bytes()
    assert "other.db is the database of another program; set [plugins.sqlite] path" in await refused(
        tmp_path / "other.db"
    )
    assert (tmp_path / "other.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database " * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    (tmp_path / "notes.txt").write_bytes(content)
    message = await refused(tmp_path / "notes.txt")
    assert "notes.txt is not a sound SQLite database" in message
    assert "move it away to start with an empty one" in message
    assert (tmp_path / "notes.txt").read_bytes() == content


async def test_an_empty_file_is_as_good_as_none(tmp_path):
    (tmp_path / "pml.db").touch()
    async with at(tmp_path / "pml.db") as store:
        await store.executions.put(execution(1))


async def test_a_broken_database_is_refused(tmp_path):
    async with at(tmp_path / "pml.db"):
        pass
    content = bytearray((tmp_path / "pml.db").read_bytes())
    content[100:4000] = b"\xff" * 3900
    (tmp_path / "pml.db").write_bytes(content)
    assert "is not a sound SQLite database" in await refused(tmp_path / "pml.db")


async def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "file" / "pml.db", "its folder is a file")):
        message = await refused(path)
        assert f"{path} cannot be opened for writing ({why})" in message
        assert "make the folder and the file writable" in message


async def test_a_new_file_that_stays_locked_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "pml.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "cannot be opened for writing (database is locked)" in await refused(
            tmp_path / "pml.db", busy_timeout_ms=20
        )


async def test_a_refused_store_leaves_no_thread_behind(tmp_path):
    store = at(tmp_path)
    with pytest.raises(StoreError):
        await store.__aenter__()
    store._writer._thread.join(5)
    assert not store._writer._thread.is_alive()


async def test_an_entry_that_is_cancelled_leaves_no_thread_behind(tmp_path):
    store = at(tmp_path / "pml.db")
    entering = asyncio.ensure_future(store.__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    store._writer._thread.join(5)
    assert not store._writer._thread.is_alive()


async def test_a_later_schema_step_is_applied_to_older_data(tmp_path, monkeypatch):
    async with at(tmp_path / "pml.db") as store:
        await store.executions.put(execution(1))
    later = ("ALTER TABLE execution ADD COLUMN note TEXT", "UPDATE execution SET note = 'kept'")
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, later))
    for _ in range(2):
        async with at(tmp_path / "pml.db") as store:
            assert await store.executions.get(execution(1).id, EVERYONE) == execution(1)
    with closing(sqlite3.connect(tmp_path / "pml.db")) as connection:
        assert connection.execute("SELECT note FROM execution").fetchall() == [("kept",)]
        assert connection.execute("PRAGMA user_version").fetchall() == [(schema.BASE + len(schema.STEPS),)]


async def test_a_schema_step_that_fails_leaves_the_data_as_they_were(tmp_path, monkeypatch):
    async with at(tmp_path / "pml.db") as store:
        await store.executions.put(execution(1))
    with monkeypatch.context() as patched:
        patched.setattr(schema, "STEPS", (*schema.STEPS, ("DROP TABLE span", "nonsense")))
        assert "nonsense" in await refused(tmp_path / "pml.db")
    async with at(tmp_path / "pml.db") as store:
        assert await store.executions.get(execution(1).id, EVERYONE) == execution(1)
        assert not await store.traces.of(execution(1).id, EVERYONE)


OPEN_AND_WRITE = """
import asyncio, sys
from pml_store_sqlite import Settings, SqliteStore
from pml_testing.records import execution

async def main():
    sys.stdin.readline()
    async with SqliteStore(Settings(path=sys.argv[1], busy_timeout_ms=10_000)) as store:
        first = int(sys.argv[2])
        for n in range(first, first + 600, 2):
            store.executions.record(execution(n))
            await store.executions.put(execution(n + 1))

asyncio.run(main())
"""


def write_from_four_processes(path):
    command = [sys.executable, "-c", OPEN_AND_WRITE, path]
    processes = [
        subprocess.Popen([*command, str(n * 1000)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=60)[1] for process in processes]


async def test_processes_that_open_a_new_file_together_share_it_and_lose_nothing(tmp_path):
    path = str(tmp_path / "new" / "pml.db")
    assert await asyncio.to_thread(write_from_four_processes, path) == [""] * 4
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM execution").fetchall() == [(4 * 600,)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    async with at(path) as store:
        for n in (0, 299, 1000, 2599, 3001, 3598):
            assert await store.executions.get(execution(n).id, EVERYONE) == execution(n)


async def test_two_stores_in_one_process_see_each_others_rows(tmp_path):
    async with at(tmp_path / "pml.db") as one, at(tmp_path / "pml.db") as other:
        await one.executions.put(execution(1))
        await other.executions.put(execution(2))
        assert await other.executions.get(execution(1).id, EVERYONE) == execution(1)
        assert await one.executions.get(execution(2).id, EVERYONE) == execution(2)
