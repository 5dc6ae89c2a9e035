"""Whatever arrives, however it is cut: nothing raises, no answer is mistaken, and what is sound gets through.

A bounded run; ``tests/soak/fuzz_stdio.py`` does the same to millions of inputs.
"""

from __future__ import annotations

import asyncio
import sys
import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traffic import LIMIT_BYTES, NOTES, TOKENS, Rig, spoilt, stream

from pml_hookspecs import RpcError, TransportError
from pml_kit.jsonrpc import envelope
from pml_kit.jsonrpc.framing import KEPT, Lines, OversizedLine
from pml_kit.jsonrpc.streams import StreamLimits
from pml_testing.transport_ends import SOON_S

LIMITS = StreamLimits(max_message_bytes=LIMIT_BYTES)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 8), st.integers(1, 60))
def test_spoilt_traffic_is_understood_as_the_model_does(seed, requests, notes, pieces):
    random = Random(seed)

    async def run():
        rig = Rig(LIMITS)
        for _ in range(3):
            asked = await rig.ask(requests)
            await rig.round(random, asked, stream(random, list(asked)[:-1], notes), pieces)

    asyncio.run(run())


@given(st.lists(st.binary(max_size=40) | st.sampled_from(TOKENS), max_size=20), st.integers(1, 30))
def test_any_bytes_at_all_leave_the_connection_as_it_was(pieces, cuts):
    async def run():
        rig = Rig(LIMITS)
        asked = await rig.ask(1)
        await rig.round(Random(cuts), asked, b"".join(pieces), cuts)

    asyncio.run(run())


@given(st.randoms(use_true_random=False), st.sampled_from(NOTES), st.integers(1, 4))
def test_an_envelope_is_a_message_or_refused_in_a_known_way(random, note, mistakes):
    line = note % 1
    for _ in range(mistakes):
        line = spoilt(random, line, note % 2) or b" "
    for read in (envelope.decode, envelope.decode_leniently):
        try:
            read(line)
        except ValueError:
            continue
    key = envelope.recover_id(line)
    assert key is None or str(key).encode() in line


@given(
    st.lists(st.binary(min_size=1, max_size=9) | st.builds(bytes, st.integers(1, 50)), max_size=60), st.integers(0, 40)
)
def test_lines_hold_no_more_than_their_limit_and_what_the_pieces_cost(pieces, limit):
    lines = Lines(limit)
    for piece in pieces:
        for line in lines.feed(piece):
            assert len(line.head if isinstance(line, OversizedLine) else line) <= max(limit, KEPT)
        assert lines._size <= limit or len(lines._begun) <= KEPT


def test_a_line_that_comes_byte_by_byte_takes_little_more_memory_than_its_bytes():
    lines = Lines(LIMIT_BYTES)
    for n in range(300_000):
        lines.feed(bytes((65 + n % 26,)))
    assert sys.getsizeof(lines._begun) < 1.5 * 300_000
    (line,) = lines.feed(b"\n")
    assert line == bytes(65 + n % 26 for n in range(300_000))
    for n in range(2 * KEPT):
        assert lines.feed(b"x" * (n % 2 * KEPT + 1)) == []


SLOW = {
    "nested": b"[",
    "objects": b'{"a":',
    "ids": b'"id":1,',
    "prints": b'{"jsonrpc":"2.0",',
    "white space": b" ",
    "quotes": b'"',
    "backslashes": b"\\",
    "escapes": b"\\ud800",
    "broken text": b"\xff",
    "batches": b"[{},",
    "digits": b"9",
}


@pytest.mark.parametrize("unit", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("frame", [b"%b", b'{"id":1,"result":{"a":"%b', b'{"method":"m","params":{"a":[%b]}}'])
def test_the_time_for_a_line_is_linear_in_its_length(unit, frame):
    async def took(size):
        rig = Rig(StreamLimits(max_message_bytes=1 << 24))
        line = frame.replace(b"%b", unit * (size // len(unit))) + b"\n"
        start = time.process_time()
        rig.connection.data_received(line)
        return time.process_time() - start

    small, large = (min(asyncio.run(took(size)) for _ in range(3)) for size in (50_000, 1_000_000))
    assert large < 60 * small + 0.03


# What Python's own limits make of a message.


def rig_and(line):
    """What became of request 1, and the connection, after a line and then an answer to request 2."""

    async def run():
        rig = Rig(LIMITS)
        asked = await rig.ask(2)
        rig.connection.data_received(line + b'\n{"id":2,"result":{"sound":true}}\n')
        async with asyncio.timeout(SOON_S):
            assert await asked[2] == {"sound": True}
        if not asked[1].done():
            asked[1].cancel()
        (outcome,) = await asyncio.gather(asked[1], return_exceptions=True)
        return outcome, rig.connection

    return asyncio.run(run())


DIGITS = b"9" * 5000


def test_numbers_that_python_does_not_read_pass_through():
    outcome, _ = rig_and(b'{"id":1,"result":{"n":%b}}' % DIGITS)
    assert outcome.raw == b'{"n":%b}' % DIGITS


@pytest.mark.parametrize("data", [DIGITS, b"[" * 2000 + b"]" * 2000])
def test_an_error_that_python_does_not_read_is_an_error_all_the_same(data):
    outcome, _ = rig_and(b'{"id":1,"error":{"code":-5,"message":"no","data":%b}}' % data)
    assert isinstance(outcome, (RpcError, TransportError))
    assert "no" in str(outcome)


@pytest.mark.parametrize("wanted", [DIGITS, b"[" * 900 + b"]" * 900, b"[" * 2000 + b"]" * 2000])
def test_a_cancellation_that_python_does_not_read_is_skipped(wanted):
    _, connection = rig_and(b'{"method":"notifications/cancelled","params":{"requestId":%b}}' % wanted)
    assert connection.counters["junk"] <= 1


@pytest.mark.parametrize("depth", [150, 900, 2000, 100_000])
def test_nesting_passes_or_is_refused_and_never_hangs(depth):
    outcome, _ = rig_and(b'{"id":1,"result":{"a":%b}}' % (b"[" * depth + b"]" * depth))
    assert isinstance(outcome, TransportError) or outcome.raw.count(b"[") == depth


def test_an_id_that_is_no_number_is_junk():
    for id in (b"NaN", b"-Infinity", b"1e999"):
        _, connection = rig_and(b'{"id":%b,"method":"m"}' % id)
        assert connection.counters["junk"] == 1
        assert not connection.running
