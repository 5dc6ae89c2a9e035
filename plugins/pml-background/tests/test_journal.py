"""What is recorded is in a file of this machine until the store has it, and found there by whoever comes next."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from pml_background import journal
from pml_background.journal import Journal
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import ExecutionQuery, ExecutionRecord, Failure, RawObject, Scope, Session, Status, ToolCall, replace

pytestmark = pytest.mark.anyio
pytest.importorskip("fcntl")
EVERYONE = Scope(principals=None)
DIES = """
import asyncio, os, sys
sys.path[:0] = {path!r}
from test_journal import Log, OnDisk, asked, row
from pml_background.journal import Journal

async def main():
    store = OnDisk()
    store.executions.record = lambda _: None  # it does not get to that
    one = Journal(store, Log())
    keeping = asyncio.ensure_future(one.keep())
    while one._file < 0:
        await asyncio.sleep(0.01)
    for number in range(3):
        one.begins(*asked(f"id-{{number}}"))
    {between}
    one.executions.record(row("id-0"))
    one.executions.record(row("id-1", failure=True))
    os.write(one._file, b'{{"id": "cut')
    os._exit(9)

asyncio.run(main())
"""


class Log:
    def __getattr__(self, _level):
        return lambda *_args, **_fields: None


class OnDisk(MemoryStore):
    """One that says where it keeps its rows."""

    def __init__(self):
        super().__init__()
        self.away = False
        documents = self.documents
        put = documents.put

        async def refuse(*args, **more):
            if self.away:
                raise OSError("away")
            return await put(*args, **more)

        documents.put = refuse

    async def health(self):
        return {"path": "/somewhere/pml.db"}


def row(id, *, failure=False):
    return ExecutionRecord(
        id=id,
        kind="tool",
        target="bank:pay",
        principal="ann",
        status=Status.ERROR if failure else Status.OK,
        started_at=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
        duration_ms=3,
        request=RawObject(b'{"to": "ben"}'),
        response=None if failure else RawObject(b'{"content": []}'),
        failure=Failure("tool.failed", "no", details={"rpc": {"code": 1}}) if failure else None,
        tool_calls=("a:b",),
    )


def asked(id):
    session = Session(key="k", principal="ann", client="c", endpoint="default")
    return ToolCall(id=id, tool="bank:pay"), SimpleNamespace(id=id, parent=None, session=session, dry_run=False)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    monkeypatch.setattr(journal, "LOOK_S", 0.01)
    monkeypatch.setattr(journal, "ADOPTION_S", 0.01)
    return tmp_path


@pytest.fixture
async def keep(anyio_backend):
    """Keeps journals until the test ends."""
    tasks = []

    async def kept(store):
        made = Journal(store, Log())
        tasks.append(asyncio.ensure_future(made.keep()))
        async with asyncio.timeout(60):
            while made._file < 0:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        return made

    yield kept
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds):
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


def lines(home):
    return [line for file in home.glob("journal/*/*.rows") for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize("between", ["", "one._begin_file(one._path.parent)"], ids=["one file", "two files"])
async def test_a_killed_process_leaves_its_rows_and_what_it_began_to_the_next(keep, home, between):
    script = DIES.format(path=[str(Path(__file__).parent), *sys.path], between=between)
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], check=False, capture_output=True)
    assert ended.returncode == 9, ended.stderr.decode()
    store = OnDisk()
    await keep(store)

    async def there():
        return len((await store.executions.find(ExecutionQuery(scope=EVERYONE))).items) == 3

    await until(there)
    assert await store.executions.get("id-0", EVERYONE) == row("id-0")
    assert await store.executions.get("id-1", EVERYONE) == row("id-1", failure=True)
    lost = await store.executions.get("id-2", EVERYONE)
    assert (lost.status, lost.failure.code, lost.principal, lost.target) == (
        Status.ERROR,
        "execution.lost",
        "ann",
        "bank:pay",
    )

    async def gone():
        return not list(home.glob("journal/*/*.rows")) or not lines(home)

    await until(gone)


async def test_what_the_store_has_is_dropped_and_what_it_has_not_is_kept(keep, home):
    store = OnDisk()
    one = await keep(store)
    store.away = True
    one.executions.record(row("kept"))
    await asyncio.sleep(0.2)
    assert any(b'"kept"' in line for line in lines(home))
    store.away = False

    async def dropped():
        return not lines(home)

    await until(dropped)
    await one.close()
    assert not list(home.glob("journal/*/*.rows"))


async def test_closed_while_the_store_is_away_it_leaves_its_rows(keep, home):
    store = OnDisk()
    one = await keep(store)
    store.away = True
    one.executions.record(row("left"))
    await one.close()
    assert any(b'"left"' in line for line in lines(home))


async def test_a_store_that_keeps_nothing_has_no_journal(home):
    await Journal(MemoryStore(), Log()).keep()
    assert not list(home.glob("journal/*"))


async def test_what_lasts_is_said_anew_in_each_file_until_it_ends(keep, home):
    one = await keep(OnDisk())
    one.begins(*asked("long"))
    one.begins(*asked("put"))

    async def replaced():
        one.executions.record(row("other"))
        return one._number > 3

    await until(replaced)
    assert {b'["long"', b'["put"'} <= {line.partition(b",")[0] for line in lines(home)}
    one.executions.record(row("long"))
    await one.executions.put(row("put"))

    async def said_no_more():
        one.executions.record(row("other"))
        return not any(line.startswith(b"[") for line in lines(home))

    await until(said_no_more)


async def test_a_text_that_was_cut_in_two_and_a_large_number_are_kept(keep, home):
    one = await keep(OnDisk())
    cut = "Great \ud83d"
    failure = Failure("tool.refused", cut, details={"n": 1 << 70})
    record = replace(row("cut"), failure=failure, response=RawObject(b'{"a":"Great \\ud83d"}'))
    one.executions.record(record)
    (kept,) = [line for line in lines(home) if b"cut" in line]
    read = journal._record(kept)
    assert (read.failure.message, read.response["a"]) == ("Great \ufffd", "Great \ufffd")
    assert read.failure.details["n"] == 1 << 70
