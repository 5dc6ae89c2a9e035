"""What a process says, cut into frames and text wherever the cuts come."""

from __future__ import annotations

import pytest

from pml_sandbox.child import SENTINEL, Child, Listener

pytestmark = pytest.mark.anyio
STDOUT = 1


class Kept(Listener):
    def __init__(self):
        self.frames, self.floods = [], []

    def frame(self, data):
        self.frames.append(data)

    def flooded(self, what, limit_bytes):
        self.floods.append((what, limit_bytes))


def child(frame_bytes=50, output_bytes=1000):
    made = Child(None, frame_bytes=frame_bytes, output_bytes=output_bytes, flood_factor=8)
    made.listener = Kept()
    return made


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 17, 18, 40, 1000])
async def test_frames_and_text_are_told_apart_however_they_are_cut(size):
    made = child()
    begin = SENTINEL + made.mark
    said = (
        b"one\ntwo"
        + begin
        + b"{1}\n"
        + begin
        + b"{2}\nthree"
        + SENTINEL
        + b"\n"
        + begin[:-1]
        + b"-four"
        + begin
        + b"{}\n"
    )
    for at in range(0, len(said), size):
        made.pipe_data_received(STDOUT, said[at : at + size])
    assert made.listener.frames == [b"{1}", b"{2}", b"{}"]
    assert made.out.read() == (b"one\ntwothree" + SENTINEL + b"\n" + begin[:-1] + b"-four").decode()


async def test_text_is_kept_as_it_comes_and_what_may_be_the_beginning_of_a_frame_waits():
    made = child()
    made.pipe_data_received(STDOUT, b"no line feed" + SENTINEL)
    assert made.out.read() == "no line feed"
    made.pipe_data_received(STDOUT, b"x")
    assert made.out.read() == "no line feed\x1ex"


@pytest.mark.parametrize("size", [1, 30, 1000])
async def test_a_frame_that_is_too_long_is_told_of_before_it_ends_and_the_next_one_is_heard(size):
    made = child(frame_bytes=50)
    begin = SENTINEL + made.mark
    said = begin + b"x" * 50 + b"\n" + begin + b"y" * 51
    for at in range(0, len(said), size):
        made.pipe_data_received(STDOUT, said[at : at + size])
    assert made.listener.frames == [b"x" * 50]
    assert made.listener.floods == [("What the code returned is", 50)]
    made.pipe_data_received(STDOUT, b"\n" + begin + b"z\n")
    assert made.listener.frames == [b"x" * 50, b"z"]


async def test_text_without_end_is_cut_and_told_of():
    made = child(output_bytes=1000)
    for _ in range(9):
        made.pipe_data_received(STDOUT, b"\n" * 1000)
    assert made.listener.floods[0] == ("What the code printed is", 8000)
    assert made.out.read().startswith("\n" * 1000 + "\n[cut here: 8000 of 9000 bytes")
