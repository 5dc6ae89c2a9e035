"""Lines come out as they went in, however they were cut."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_kit.jsonrpc.framing import KEPT, Lines, OversizedLine

PLENTY = 1 << 30


def cut(data, cuts):
    """``data`` in pieces."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


def through(lines, pieces):
    """What comes out, at the end of the stream included."""
    return [line for piece in pieces for line in lines.feed(piece)] + list(lines.close())


texts = st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=12)


@given(texts, st.lists(st.integers(min_value=0, max_value=400)))
def test_cutting_changes_nothing(texts, cuts):
    data = b"".join(line + b"\n" for line in texts)
    assert through(Lines(PLENTY), cut(data, cuts)) == texts


@given(texts, st.binary(min_size=1, max_size=30).filter(lambda line: b"\n" not in line), st.lists(st.integers(0, 400)))
def test_the_end_of_the_stream_ends_the_last_line(texts, last, cuts):
    data = b"".join(line + b"\n" for line in texts) + last
    assert through(Lines(PLENTY), cut(data, cuts)) == [*texts, last]


@given(texts, st.integers(1, 20), st.lists(st.integers(0, 400)))
def test_long_lines_are_marked_and_others_kept(texts, limit, cuts):
    data = b"".join(line + b"\n" for line in texts)
    found = through(Lines(limit), cut(data, cuts))
    assert len(found) == len(texts)
    for line, text in zip(found, texts, strict=True):
        if len(text) <= limit:
            assert line == text
        else:
            assert (line.size, line.tail) == (len(text), text)
            assert text.startswith(line.head)


@pytest.mark.parametrize("piece", [1000, 4095, 4096, 5000, 65536, 10**6])
def test_both_ends_of_an_oversized_line_are_kept(piece):
    line = bytes(range(11, 256)) * 400
    lines = Lines(10_000)
    pieces = [line[start : start + piece] for start in range(0, len(line), piece)]
    (found, after) = through(lines, [*pieces, b"\nnext\n"])
    assert found == OversizedLine(line[:KEPT], line[-KEPT:], len(line))
    assert after == b"next"


def test_an_oversized_line_is_not_collected():
    lines = Lines(1 << 20)
    for _ in range(100):
        lines.feed(b"x" * 65536)
    assert len(lines._begun) <= KEPT
    assert lines.feed(b"\n") == [OversizedLine(b"x" * KEPT, b"x" * KEPT, 100 * 65536)]


def test_fifty_megabytes_in_small_pieces_take_linear_time():
    piece = b"x" * 65536

    def took(pieces):
        lines = Lines(PLENTY)
        start = time.process_time()
        for _ in range(pieces):
            assert lines.feed(piece) == []
        (line,) = lines.feed(b"\n")
        assert len(line) == pieces * len(piece)
        return time.process_time() - start

    small, large = min(took(80) for _ in range(3)), min(took(800) for _ in range(3))
    assert large < 40 * small + 0.05
