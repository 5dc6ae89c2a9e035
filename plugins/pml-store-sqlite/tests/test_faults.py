"""Disks that are really full, file systems that are really read-only, and files that are really broken."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pml_hookspecs import ExecutionQuery
from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_testing.records import EVERYONE, execution

pytestmark = pytest.mark.anyio
ALL = ExecutionQuery(scope=EVERYONE)


@contextmanager
def small_disk(folder, size):
    """A file system of its own, of ``size``; None where this process may not make one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    made = sys.platform == "linux" and os.geteuid() == 0 and not subprocess.call(mount, stderr=subprocess.DEVNULL)
    try:
        yield folder if made else None
    finally:
        if made:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def remounted(folder, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True, capture_output=True)


def events(services):
    return [event for _, event, _ in services.log.lines]


def body(n):
    return {"text": random.Random(n).randbytes(1500).hex()}


async def until(condition):
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.01)


async def test_a_full_disk_is_said_once_and_everything_is_written_when_there_is_room(tmp_path, services):
    with small_disk(tmp_path / "disk", "2m") as disk:
        if disk is None:
            pytest.skip("only root makes file systems; test_outage has a limit on the size of files instead")
        async with SqliteStore(Settings(path=str(disk / "pml.db")), services) as store:
            await store.executions.put(execution(0))
            for n in range(1, 1500):
                store.executions.record(execution(n, response=body(n)))
            await until(lambda: is_in_trouble(store))
            assert (await store.health())["trouble"] == "database or disk is full"
            with pytest.raises(StoreError, match="make room"):
                await store.executions.put(execution(5000))
            assert await store.executions.get(execution(0).id, EVERYONE) is not None
            assert (await store.health())["queued"] > 0
            remounted(disk, "size=64m")
            await until(lambda: is_well(store))
            assert (await store.executions.find(ALL)).total == 1500
            assert (await store.health())["drops"] == 0
    assert events(services) == ["store cannot write", "store can write again"]


async def is_in_trouble(store):
    return (await store.health())["trouble"] is not None


async def is_well(store):
    health = await store.health()
    return health["trouble"] is None and not health["queued"]


async def test_what_a_full_disk_and_a_full_queue_drop_is_counted(tmp_path, services):
    with small_disk(tmp_path / "disk", "16m") as disk:
        if disk is None:
            pytest.skip("only root makes file systems")
        async with SqliteStore(Settings(path=str(disk / "pml.db"), queue_rows=100), services) as store:
            await store.executions.put(execution(0))
            (disk / "filler").write_bytes(b"x" * os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize)
            for n in range(1, 700):
                store.executions.record(execution(n, response=body(n)))
                await asyncio.sleep(0)
            await until(lambda: is_in_trouble(store))
            for n in range(700, 1700):
                store.executions.record(execution(n))
            health = await store.health()
            assert health["drops"] > 0
            (disk / "filler").unlink()
            await until(lambda: is_well(store))
            assert (await store.executions.find(ALL)).total == 1700 - (await store.health())["drops"]
    assert events(services) == ["store cannot write", "store can write again"]


async def test_a_read_only_database_is_refused_at_the_start_and_left_as_it_is(tmp_path, services):
    with small_disk(tmp_path / "disk", "16m") as disk:
        if disk is None:
            pytest.skip("only root makes file systems")
        path = disk / "pml.db"
        async with SqliteStore(Settings(path=str(path))) as store:
            await store.executions.put(execution(0))
        before = path.read_bytes()
        remounted(disk, "ro")
        with pytest.raises(StoreError, match=r"cannot be opened for writing \(Read-only file system\); make"):
            await SqliteStore(Settings(path=str(path)), services).__aenter__()
        remounted(disk, "rw")
        assert path.read_bytes() == before
        async with SqliteStore(Settings(path=str(path))) as store:
            assert (await store.executions.find(ALL)).total == 1


async def test_a_file_that_breaks_in_use_stops_no_call(path, services):
    async with SqliteStore(Settings(path=str(path))) as store:
        for n in range(500):
            store.executions.record(execution(n, response=body(n)))
    async with SqliteStore(Settings(path=str(path)), services) as store:
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))
        for n in range(500, 600):
            store.executions.record(execution(n))
        await until(lambda: is_in_trouble(store))
        with pytest.raises(StoreError, match="malformed"):
            await store.executions.put(execution(9999))
        with pytest.raises(StoreError, match="cannot be read"):
            await store.executions.find(ALL)
        health = await store.health()
        assert (health["queued"], health["drops"]) == (100, 0)
    assert [level for level, _, _ in services.log.lines] == ["error", "error"]
    assert events(services) == ["store cannot write", "store closed with rows it could not write"]
