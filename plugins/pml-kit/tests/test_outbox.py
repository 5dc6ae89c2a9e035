"""Notifications for a peer that does not read: merged, in order, never too many, and none after what it belongs to."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_hookspecs import RawObject
from pml_kit.jsonrpc import envelope
from pml_kit.jsonrpc.lines import LinePeer
from pml_kit.jsonrpc.outbox import LOGGED_AT_MOST, Outbox
from pml_kit.jsonrpc.streams import StreamLimits
from pml_kit.mcp.protocol import META_SUBSCRIPTION_ID
from pml_testing.transport_ends import LONG_S, Recorder

from .test_line_peer import Paper

MIB = 1 << 20
PROGRESS, UPDATED = "notifications/progress", "notifications/resources/updated"
LOGGED, CANCELLED = "notifications/message", "notifications/cancelled"
TOOLS_CHANGED = "notifications/tools/list_changed"


@pytest.fixture
def made(log):
    """A connection to a peer that does not read until a test says so."""

    def make(**options):
        connection = LinePeer("the client", StreamLimits(write_buffer_bytes=MIB), log, **options)
        connection.handler, connection.writer = Recorder(), Paper()
        connection.writer.size = MIB // 2
        return connection

    return make


def progress(token, done):
    return PROGRESS, {"progressToken": token, "progress": done}


def sent(connection):
    """What the peer gets once it reads."""
    connection.writer.size = 0
    connection.room()
    return [(message["method"], message.get("params", {})) for message in connection.writer.messages]


# What is merged, and what is not.

messages = st.one_of(
    st.builds(progress, st.sampled_from([1, "1", True, "a", None]), st.integers(0, 9)),
    st.tuples(st.just(UPDATED), st.fixed_dictionaries({"uri": st.sampled_from(["a:", "b:"])})),
    st.tuples(
        st.sampled_from([TOOLS_CHANGED, "notifications/roots/list_changed"]),
        st.sampled_from([{}, {"_meta": {META_SUBSCRIPTION_ID: 1}}, {"_meta": {META_SUBSCRIPTION_ID: "1"}}]),
    ),
    st.tuples(st.just(CANCELLED), st.fixed_dictionaries({"requestId": st.integers(0, 2)})),
    st.tuples(st.sampled_from([LOGGED, "notifications/x"]), st.fixed_dictionaries({"n": st.integers(0, 9)})),
)


def matter(method, params):
    """What a message is about; the last one about it says it all. None where each counts."""
    about = (json.dumps(params.get(name)) for name in ("progressToken", "uri", "_meta"))
    if method == PROGRESS and params["progressToken"] is None:
        return None
    return None if method in (CANCELLED, LOGGED, "notifications/x") else (method, *about)


@given(st.lists(messages, max_size=30))
def test_what_comes_out_is_what_went_in_without_what_became_obsolete(given_messages):
    counters = {"merged": 0, "dropped": 0}
    box = Outbox(MIB, counters)
    for method, params in given_messages:
        assert not box.refuses(method)
        box.put(method, RawObject.of(params), envelope.notification(method, params), 0)
    found = [json.loads(line) for line in b"".join(box.empty()).splitlines()]
    expected = [
        (method, params)
        for place, (method, params) in enumerate(given_messages)
        if (about := matter(method, params)) is None
        or about not in [matter(*later) for later in given_messages[place + 1 :]]
    ]
    assert [(message["method"], message.get("params", {})) for message in found] == expected
    assert counters == {"merged": len(given_messages) - len(expected), "dropped": 0}
    assert (box.size, box.empty()) == (0, ())


@pytest.mark.anyio
async def test_while_the_peer_reads_nothing_is_merged(made):
    connection = made()
    connection.writer.size = 0
    for done in range(5):
        connection.notify(*progress("a", done))
    assert [message["params"]["progress"] for message in connection.writer.messages] == [0, 1, 2, 3, 4]


@pytest.mark.anyio
async def test_what_is_held_back_goes_out_in_order_once_there_is_room(made):
    connection = made()
    connection.notify(TOOLS_CHANGED, {})
    for done in range(3):
        connection.notify(*progress("a", done))
        connection.notify(*progress("b", done))
        connection.notify(UPDATED, {"uri": "x:"})
    connection.notify(LOGGED, {"data": "hello"})
    connection.notify(TOOLS_CHANGED, {})
    assert connection.writer.chunks == []
    assert sent(connection) == [
        progress("a", 2),
        progress("b", 2),
        (UPDATED, {"uri": "x:"}),
        (LOGGED, {"data": "hello"}),
        (TOOLS_CHANGED, {}),
    ]
    assert connection.counters["merged"] == 7
    connection.notify(*progress("a", 3))
    assert connection.writer.messages[-1]["params"]["progress"] == 3


@pytest.mark.anyio
async def test_nothing_overtakes_what_is_held_back(made):
    connection = made()
    connection.notify(*progress("a", 1))
    connection.writer.size = 0
    connection.notify("notifications/x", {})
    assert [method for method, _ in sent(connection)] == [PROGRESS, "notifications/x"]


@pytest.mark.anyio
async def test_progress_of_a_request_never_comes_after_its_answer(made):
    class Working(Recorder):
        async def request(self, method, params, origin):
            for done in range(100):
                origin.link.notify(*progress(params["_meta"]["progressToken"], done))
            return {}

    connection = made()
    connection.handler = Working()
    connection.data_received(b'{"id":7,"method":"m","params":{"_meta":{"progressToken":"t"}}}\n')
    await asyncio.wait(connection.running)
    assert connection.writer.messages == [
        {"jsonrpc": "2.0", "method": PROGRESS, "params": progress("t", 99)[1]},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("concurrent", [True, False])
async def test_a_request_never_comes_before_the_notification_that_allows_it(made, concurrent):
    connection = made(concurrent=concurrent)
    connection.notify("notifications/initialized", {})
    asked = asyncio.ensure_future(connection.request("tools/list", {}, timeout_s=LONG_S))
    await asyncio.sleep(0)
    assert [message["method"] for message in connection.writer.messages] == ["notifications/initialized", "tools/list"]
    asked.cancel()


# What is dropped, and what never is.


@pytest.mark.anyio
async def test_log_messages_beyond_the_bound_are_dropped_and_counted(made):
    connection = made()
    for n in range(LOGGED_AT_MOST + 10):
        connection.notify(LOGGED, {"data": n})
    connection.notify(TOOLS_CHANGED, {})
    found = sent(connection)
    assert found == [*((LOGGED, {"data": n}) for n in range(LOGGED_AT_MOST)), (TOOLS_CHANGED, {})]
    assert connection.counters["dropped"] == 10
    connection.writer.size = MIB // 2
    connection.notify(LOGGED, {"data": "again"})
    assert sent(connection)[-1] == (LOGGED, {"data": "again"})


@pytest.mark.anyio
async def test_cancellations_and_changed_lists_get_through_a_buffer_that_is_full(made):
    connection = made()
    connection.writer.size = MIB + 1
    for n in range(3):
        connection.notify(CANCELLED, {"requestId": n})
        connection.notify(TOOLS_CHANGED, {})
        connection.notify(UPDATED, {"uri": "x:"})
        connection.notify(*progress("a", n))
    assert [(method, params.get("requestId")) for method, params in sent(connection)] == [
        (CANCELLED, 0),
        (CANCELLED, 1),
        (CANCELLED, 2),
        (TOOLS_CHANGED, None),
    ]
    assert connection.counters["dropped"] == 6


@pytest.mark.anyio
@pytest.mark.parametrize(
    "message",
    [
        lambda n: progress(n, 0),
        lambda n: (UPDATED, {"uri": f"file:///{n}"}),
        lambda n: (f"notifications/{n}/list_changed", {}),
        lambda n: (TOOLS_CHANGED, {"_meta": {META_SUBSCRIPTION_ID: n}}),
        lambda n: (f"notifications/{n}", {}),
    ],
    ids=["tokens", "uris", "lists", "subscriptions", "names"],
)
async def test_a_peer_that_makes_up_names_without_end_takes_no_more_than_the_buffer(made, message):
    connection = made()
    for n in range(60_000):
        connection.notify(*message(n))
    assert 0 < connection.counters["dropped"] < 60_000
    assert len(b"".join(connection._outbox.empty())) <= 2 * MIB + 200


@pytest.mark.anyio
async def test_what_is_held_back_counts_as_unwritten(made):
    connection = made(sheds=True)
    connection.notify("notifications/x", {"text": "x" * MIB})
    with pytest.raises(Exception, match="is not reading its input"):
        await connection.request("m", {}, timeout_s=LONG_S)
    connection.data_received(b'{"id":1,"method":"m"}\n')
    await asyncio.wait(connection.running)
    assert connection.counters["dropped"] == 1
    assert connection.writer.chunks == []


@pytest.mark.anyio
async def test_what_python_does_not_decode_is_sent_as_it_came(made):
    raw = RawObject(b'{"progressToken":"a","n":' + b"9" * 5000 + b"}")
    connection = made()
    for _ in range(2):
        connection.notify(PROGRESS, raw)
    connection.room()
    assert b"".join(connection.writer.chunks).count(raw.raw) == 2


@pytest.mark.anyio
async def test_an_end_of_our_own_sends_what_was_held_back_first(made):
    connection = made()
    connection.notify(CANCELLED, {"requestId": 1})
    connection.end(None)
    assert [message["method"] for message in connection.writer.messages] == [CANCELLED]
