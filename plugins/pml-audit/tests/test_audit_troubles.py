"""Files that cannot be written, rows that are cut off, and what the audit costs."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time

import pytest
from audit_kit import ALICE, call, gateway

from pml_audit import plugin, recorder
from pml_audit.heads import verified
from pml_audit.recorder import Recorder
from pml_audit.settings import Settings
from pml_audit.trail import Trail, note
from pml_audit.verify import verify
from pml_audit.wrapper import Audit
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import Failure, Status
from pml_testing.fakes import FakeRun, FakeServices, outcome
from pml_testing.wrapper import Next, WrapperContract

pytestmark = pytest.mark.anyio


# When the files cannot be written


class Unwritable:
    """Makes a recorder's files fail until told otherwise."""

    def __init__(self, recording):
        self._append, recording.trail.append = recording.trail.append, self
        self.broken = True

    def __call__(self, rows):
        if self.broken:
            raise OSError(28, "No space left on device")
        return self._append(rows)


async def test_while_the_disk_is_full_calls_go_on_and_rows_are_written_later(folder, rows, monkeypatch):
    services = FakeServices("audit", store=MemoryStore())
    recording = Recorder(services, Settings())
    disk = Unwritable(recording)
    audit = Audit(recording, Settings())
    failure = Failure("policy.denied", "no")
    for _ in range(5):
        ended = await audit(call("fs:x"), FakeRun(), Next(Status.DENIED, failure))
        assert ended.failure is failure
    errors = [line for line in services.log.lines if line[0] == "error"]
    assert len(errors) == 1
    assert "cannot be written" in errors[0][1]
    disk.broken = False
    await asyncio.wrap_future(recording.sync())
    assert len(rows("denied")) == 5
    assert any("again" in line[1] for line in services.log.lines)
    await recording.close()


async def test_what_there_is_no_room_for_is_counted_in_a_row(folder, rows, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_HELD", 10)
    services = FakeServices("audit", store=MemoryStore())
    recording = Recorder(services, Settings())
    disk = Unwritable(recording)
    for _ in range(25):
        await recording.wait(recording.record("denied"))
    disk.broken = False
    await recording.close()
    assert len(rows("denied")) == 10
    assert rows("audit.dropped")[0]["count"] == 15


async def test_rows_that_are_dropped_while_others_are_written_are_counted_too(folder, rows, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_HELD", 1)
    recording = Recorder(FakeServices("audit", store=MemoryStore()), Settings())
    append, more = recording.trail.append, []

    def slow(given):
        if not more:  # in the thread, after it has looked how many were dropped
            more.extend(recording.record("denied") for _ in range(4))
        return append(given)

    class Told(Recorder):
        """Has the gateway drop a row between reading the count in the thread and changing it."""

        @property
        def drops(self):
            count = self.__dict__.setdefault("count", 0)
            if threading.current_thread() is not threading.main_thread() and len(more) < 8 and not within:
                within.append(True)
                more.append(self.record("denied"))
                within.clear()
            return count

        @drops.setter
        def drops(self, count):
            self.__dict__["count"] = count

    within = []
    recording.__class__ = Told
    recording.trail.append = slow
    await asyncio.wrap_future(recording.record("denied"))
    for _ in range(3):
        await asyncio.wrap_future(recording.sync())
    await recording.close()
    asked = 1 + len(more)
    assert asked == 9
    assert len(rows("denied")) + sum(row["count"] for row in rows("audit.dropped")) == asked


async def test_an_answer_does_not_wait_for_a_disk_that_hangs(folder, monkeypatch):
    import threading

    services = FakeServices("audit", store=MemoryStore())
    recording = Recorder(services, Settings(wait_s=0.02))
    gate, append = threading.Event(), recording.trail.append
    recording.trail.append = lambda rows: (gate.wait(120), append(rows))[1]
    async with asyncio.timeout(60):
        await Audit(recording, Settings())(call("fs:x"), FakeRun(), Next(Status.DENIED, Failure("policy.denied", "no")))
    gate.set()
    await recording.close()


async def test_rows_are_on_disk_after_an_interval_when_so_configured(folder, monkeypatch):
    synced = []
    real = recorder.os.fsync
    monkeypatch.setattr(recorder.os, "fsync", lambda fd: (synced.append(fd), real(fd)))
    recording = Recorder(FakeServices("audit", store=MemoryStore()), Settings(fsync="interval"))
    await recording.wait(recording.record("denied"))
    assert synced == []
    await asyncio.wrap_future(recording.sync())
    assert len(synced) == 1
    await recording.close()


async def test_with_fsync_always_a_row_is_on_disk_when_it_is_acknowledged(folder, monkeypatch):
    from pml_audit import trail

    synced = []
    real = trail.os.fsync
    monkeypatch.setattr(trail.os, "fsync", lambda fd: (synced.append(fd), real(fd)))
    recording = Recorder(FakeServices("audit", store=MemoryStore()), Settings(fsync="always"))
    await asyncio.wrap_future(recording.record("denied"))
    assert synced
    await recording.close()


async def test_how_far_the_rows_go_is_kept_in_the_store(folder):
    from pml_audit.heads import Heads

    async with gateway() as made:
        await made.dispatcher.start(call("fs:read"), ALICE)
        services = made.assembly.services("audit")
        recording = plugin._parts_of(services)[0]
    kept = (await Heads(services, folder).known()).tip
    assert kept == recording.trail.tip
    assert kept.n == verify(folder).rows


async def one_life(store):
    services = FakeServices("audit", store=store)
    (life,) = plugin.pml_lifespan(services)
    async with life:
        pass
    await services.stop()
    return services


async def test_a_start_after_rows_and_head_were_cut_off_says_so(folder, rows):
    store = MemoryStore()
    await one_life(store)
    for path in (folder / "audit.jsonl", folder / "audit.head"):
        path.unlink()
    services = await one_life(store)
    assert any(level == "error" and "not as it was left" in event for level, event, _ in services.log.lines)
    assert rows("audit.broken")
    assert (await verified(services, folder)).broken is not None


@pytest.mark.attack("The audit stands up", "write the whole audit anew while no gateway runs, longer than it was")
@pytest.mark.parametrize("moved", [False, True])
async def test_a_start_after_all_was_written_anew_says_so(folder, rows, monkeypatch, moved):
    store = MemoryStore()
    await one_life(store)
    shutil.rmtree(folder)
    if moved:
        monkeypatch.setenv("PML_HOME", str(folder.parent.with_name("elsewhere")))
        folder = folder.parent.with_name("elsewhere") / "audit"
    forged = Trail(folder, file_bytes=10_000_000, sync=False)
    for _ in range(20):
        forged.append([note("denied", principal="nobody")])
    services = await one_life(store)
    broken = (await verified(services, folder)).broken
    assert broken is not None
    assert "anew" in broken.problem


async def test_a_store_that_knows_of_no_audit_is_noted_and_the_audit_goes_on(folder, rows):
    await one_life(MemoryStore())
    services = await one_life(MemoryStore())
    assert len(rows("audit.new_store")) == 1
    report = await verified(services, folder)
    assert report.broken is None
    assert "another store" in report.notes[0]


@pytest.mark.attack("The audit stands up", "have the head unwritable, so that rows are written twice")
async def test_rows_are_written_once_although_the_head_cannot_be(folder, rows, monkeypatch):
    services = FakeServices("audit", store=MemoryStore())
    recording = Recorder(services, Settings())
    real = recording.trail.files.write_head

    def refused(head, *, sync):
        if head.tip.n:
            raise OSError(28, "No space left on device")
        real(head, sync=sync)

    monkeypatch.setattr(recording.trail.files, "write_head", refused)
    for number in range(3):
        assert await asyncio.wrap_future(recording.record("pay", number=number))
    monkeypatch.undo()
    await asyncio.wrap_future(recording.record("pay", number=3))
    await recording.close()
    assert [row["number"] for row in rows("pay")] == [0, 1, 2, 3]
    assert verify(folder).broken is None
    assert any("beside it" in event for level, event, _ in services.log.lines if level == "error")


# What it costs


async def test_a_call_that_leaves_no_row_costs_few_microseconds(folder):
    audit = Audit(Recorder(FakeServices("audit", store=MemoryStore()), Settings()), Settings())
    task, run, made = call("fs:read"), FakeRun(session=ALICE), outcome("a")
    audit.seen(int(time.time() // 86_400), ALICE.principal, ALICE.endpoint)

    async def following(task, run):
        return made

    async def per_call_us(function):
        best = float("inf")
        for _ in range(7):
            started = time.thread_time()
            for _ in range(2000):
                await function(task, run)
            best = min(best, (time.thread_time() - started) / 2000)
        return best * 1e6

    took = await per_call_us(lambda t, r: audit(t, r, following)) - await per_call_us(following)
    assert took <= 6


class TestContract(WrapperContract):
    @pytest.fixture
    def wrapper(self, folder):
        return Audit(Recorder(FakeServices("audit", store=MemoryStore()), Settings(wait_s=0)), Settings())

    @pytest.fixture
    def tasks(self):
        return [call("pml:list_recent_executions"), call("pml:answer_approval")]
