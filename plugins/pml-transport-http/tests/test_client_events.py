"""The parser of event streams."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_transport_http.events import Event, Events, TooLongError

LIMIT = 1 << 20


def parsed(chunks, *, limit=LIMIT):
    events = Events(limit)
    found = [event for chunk in chunks for event in events.feed(chunk)]
    return found + events.close(), events


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: a\n\n", [("message", "a")]),
        ("data:a\n\ndata:  b\n\n", [("message", "a"), ("message", " b")]),
        ("data: a\ndata: b\ndata\ndata: c\n\n", [("message", "a\nb\n\nc")]),
        ("event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), ("message", "b")]),
        (": comment\n:\n\ndata: a\n\n", [("message", "a")]),
        ("\ufeffdata: a\n\n", [("message", "a")]),
        ("data: \ufeff\n\n", [("message", "\ufeff")]),
        ("data: é€😀\u2028\x85\x0b\n\n", [("message", "é€😀\u2028\x85\x0b")]),
        ("data: a: b\n\n", [("message", "a: b")]),
        ("nonsense\nunknown: x\ndata: a\n\n", [("message", "a")]),
        ("data: a\n\ndata: cut", [("message", "a"), ("message", "cut")]),
        ("id: 1\ndata:\n\n", []),
        ("\n\n\n", []),
        ("", []),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=repr)
def test_events_are_found_at_every_cut(text, expected, end):
    data = text.replace("\n", end).encode()
    expected = [Event(name, value.encode()) for name, value in expected]
    for cut in range(len(data) + 1):
        assert parsed([data[:cut], data[cut:]])[0] == expected
    assert parsed([bytes([byte]) for byte in data])[0] == expected


@given(
    st.lists(st.sampled_from([b"data: a", b"id: 1", b"event: e", b":", b"\r", b"\n", b"\r\n", b"\xc3", b"x"])),
    st.lists(st.integers(0, 60)),
)
def test_how_a_stream_is_cut_does_not_matter(parts, cuts):
    data = b"".join(parts)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    whole, at_once = parsed([data])
    pieces, piecewise = parsed([data[a:b] for a, b in pairwise(places)])
    assert pieces == whole
    assert piecewise.last_id == at_once.last_id


def test_the_last_id_counts_with_its_event_only():
    events = Events(LIMIT)
    events.feed(b"id: one\ndata: a\n\nid: two\ndata: cu")
    assert events.last_id == "one"
    assert events.close() == [Event("message", b"cu")]
    assert events.last_id == "one"
    assert parsed([b"id: one\n\ndata: b\n\n"])[1].last_id == "one"
    assert parsed([b"id: one\n\nid\n\n"])[1].last_id is None
    assert parsed([b"id: o\0ne\n\n"])[1].last_id is None


def test_the_wait_that_the_server_asks_for_is_in_seconds():
    assert parsed([b"retry: 1500\n\n"])[1].retry_s == 1.5
    assert parsed([b"retry: soon\n\n"])[1].retry_s is None


@pytest.mark.parametrize("text", [b"data: " + b"x" * 200 + b"\n\n", b"data: " + b"x" * 200, b"data: xxxxxxxxx\n" * 20])
def test_an_event_over_the_limit_is_refused(text):
    for chunks in ([text], [text[n : n + 1] for n in range(len(text))]):
        with pytest.raises(TooLongError):
            parsed(chunks, limit=100)


def test_many_events_within_the_limit_are_not_refused():
    found, _ = parsed([b"data: " + b"x" * 90 + b"\n\n"] * 100, limit=100)
    assert len(found) == 100


def test_the_time_is_linear_in_the_size():
    # By copying what came before for every chunk it would be 8 TB, which no machine does in the time allowed.
    chunks = [b"data: ", *[b"x" * 100] * 400_000, b"\n\n"]
    start = time.monotonic()
    found, _ = parsed(chunks, limit=1 << 30)
    assert len(found[0].data) == 40_000_000
    assert time.monotonic() - start < 120
