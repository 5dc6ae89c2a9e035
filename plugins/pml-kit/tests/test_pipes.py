"""Bytes through real pipes: nothing lost, nothing doubled, nothing blocked."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import contextmanager, suppress

import pytest

from pml_kit.processes.pipes import AT_FIRST, AT_MOST, JOINED, Reader, Writer

pytestmark = pytest.mark.anyio


@contextmanager
def pipe():
    """Both ends of a pipe that does not block; what the test closes itself stays closed."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    try:
        yield ends
    finally:
        for end in ends:
            with suppress(OSError):
                os.close(end)


class Counting:
    """``os`` with its writes counted."""

    def __init__(self):
        self.writes = []

    def __getattr__(self, name):
        return getattr(os, name)

    def write(self, fd, data):
        self.writes.append(len(data))
        return os.write(fd, data)


@pytest.fixture
def counting(monkeypatch):
    made = Counting()
    monkeypatch.setattr("pml_kit.processes.pipes.os", made)
    return made


async def test_one_turn_of_the_loop_makes_one_write(counting):
    with pipe() as (_source, sink):
        writer = Writer(sink, pytest.fail)
        for _ in range(50):
            writer.write((b"abc", b"\n"))
        assert counting.writes == []
        await asyncio.sleep(0)
        assert counting.writes == [200]
        writer.write((b"x",), now=True)
        assert counting.writes == [200, 1]
        writer.write((b"y" * (JOINED + 1),))
        assert sum(counting.writes) >= 201 + JOINED // 2
        writer.close()


async def test_what_is_written_is_what_is_read():
    source_of_chance = random.Random(7)
    sizes = [source_of_chance.choice((0, 1, 100, 4096, 70_000, 700_000, 3_000_000)) for _ in range(60)]
    chunks = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    received = []
    done = asyncio.Event()
    with pipe() as (source, sink):
        reader = Reader(source, received.append, lambda error: done.set() if error is None else pytest.fail(str(error)))
        room = asyncio.Event()
        writer = Writer(sink, pytest.fail, room.set)
        for first, second in zip(chunks[::2], chunks[1::2], strict=True):
            writer.write((first, second), now=source_of_chance.random() < 0.5)
            if source_of_chance.random() < 0.3:
                await asyncio.sleep(0)
        assert writer.size > AT_MOST
        await room.wait()
        assert writer.size == 0
        os.close(sink)
        await done.wait()
        reader.close()
    assert b"".join(received) == b"".join(chunks)


async def test_a_broken_pipe_is_told_once_and_nothing_is_kept():
    broken = []
    with pipe() as (source, sink):
        writer = Writer(sink, broken.append)
        os.close(source)
        writer.write((b"x",), now=True)
        writer.write((b"y",), now=True)
        await asyncio.sleep(0)
    assert [type(error) for error in broken] == [BrokenPipeError]
    assert writer.size == 0


async def test_a_pipe_that_breaks_while_it_is_full_is_told():
    broken = asyncio.get_running_loop().create_future()
    with pipe() as (source, sink):
        writer = Writer(sink, broken.set_result)
        writer.write((b"x" * (2 * AT_MOST),))
        assert writer.size > 0
        os.close(source)
        assert isinstance(await broken, BrokenPipeError)


async def test_a_paused_reader_leaves_data_where_it_is(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x" * 300_000)
    with pipe() as (source, sink), file.open("rb") as plain:
        os.write(sink, b"x" * 1000)
        for fd, size in ((source, 1000), (plain.fileno(), 300_000)):
            received = []
            reader = Reader(fd, received.append, lambda _error: None)
            reader.pause()
            reader.pause()
            for _ in range(3):
                await asyncio.sleep(0)
            assert received == []
            reader.resume()
            reader.resume()
            for _ in range(20):
                await asyncio.sleep(0)
            assert sum(map(len, received)) == size
            reader.close()
            reader.close()


async def test_an_error_on_reading_is_the_end(tmp_path):
    end = asyncio.get_running_loop().create_future()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        Reader(folder, pytest.fail, end.set_result)
        assert isinstance(await end, IsADirectoryError)
    finally:
        os.close(folder)


async def test_a_large_message_makes_room_for_more():
    sizes = []
    with pipe() as (source, sink):
        reader = Reader(source, lambda data: sizes.append(len(data)), lambda _error: None)
        room = asyncio.Event()
        writer = Writer(sink, pytest.fail, room.set)
        writer.write((b"x" * (20 * AT_MOST),))
        await room.wait()
        reader.close()
    assert max(sizes) > AT_FIRST


async def test_reads_are_small_again_once_the_large_message_is_over():
    """Room for a large one is mapped anew for each read, which takes twenty times as long as reading a small one."""
    received, small = 0, asyncio.Event()
    large = asyncio.Event()

    def take(data):
        nonlocal received
        received += len(data)
        (small if received > AT_MOST else large if received == AT_MOST else asyncio.Event()).set()

    with pipe() as (source, sink):
        reader = Reader(source, take, lambda _error: None)
        writer = Writer(sink, pytest.fail)
        writer.write((b"x" * AT_MOST,))
        await large.wait()
        writer.write((b"small",), now=True)
        await small.wait()
        assert reader._size == AT_FIRST
        reader.close()
        writer.close()
