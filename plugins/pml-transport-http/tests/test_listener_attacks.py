"""What those without a key can do to a gateway that serves over HTTP, and those with one to each other."""

from __future__ import annotations

import contextlib
import json
import sys

import pytest
from listening import META
from served import ServeProcess, answer, head, is_open, poured, status, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")

MIB = 1 << 20
LINE = b"x-filler: " + b"y" * 65536 + b"\r\n"
AUTHORIZED = b"authorization: Bearer alices-token"
JSON = b"content-type: application/json"
MEMORY_BYTES = 60 * MIB
"""What an attack may cost besides what is there at rest."""


@contextlib.contextmanager
def at_rest(served):
    """See that what happens meanwhile costs no memory, makes no noise, and keeps nobody from being served."""
    alice = served.caller()
    assert alice.lists()
    before, said = served.memory_bytes(), len(served.said())
    yield alice
    assert alice.lists()
    assert served.memory_bytes() - before < MEMORY_BYTES
    noise = served.said()[said:]
    assert "Traceback" not in noise
    assert len(noise) < 4096, noise


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = ServeProcess(tmp_path_factory.mktemp("served"), header_timeout_s=3, body_timeout_s=3)
    with made.running():
        yield made


ENDLESS = {
    "headers": (head(), LINE, 431),
    "a header": (head() + b"x: ", b"y" * 65536, 431),
    "a target": (b"GET /", b"y" * 65536, 431),
    "trailers": (head(AUTHORIZED, b"transfer-encoding: chunked", JSON) + b"\r\n1\r\n{\r\n0\r\n", LINE, 431),
    "an extension of a chunk": (head(AUTHORIZED, b"transfer-encoding: chunked", JSON) + b"\r\n1;", b"y" * 65536, 431),
}


@pytest.mark.attack(
    "HTTP has limits", "send 100 MB of headers, of one header, of the target, of trailers, on three connections"
)
@pytest.mark.parametrize(("begin", "piece", "refused"), ENDLESS.values(), ids=ENDLESS)
def test_what_is_no_body_is_bounded(served, begin, piece, refused):
    with at_rest(served):
        for _ in range(3):
            with served.socket(begin) as connected:
                poured(connected, piece, 200 * MIB)
                assert status(connected) in (refused, None)


@pytest.mark.attack("HTTP has limits", "send thousands of short headers")
def test_headers_are_counted(served):
    with at_rest(served), served.socket(head(*(b"a: b" for _ in range(1000))), b"\r\n") as connected:
        assert status(connected) == 431


HALF = {
    "nothing": b"",
    "half a line": b"POST /mc",
    "half a head": head(b"content-length: 2"),
    "half a body": head(AUTHORIZED, JSON, b"content-length: 20") + b"\r\n{",
    "half a body without a key": head(JSON, b"content-length: 20") + b"\r\n{",
}


@pytest.mark.attack("HTTP has limits", "leave 300 requests half sent: nothing, half a head, half a body")
@pytest.mark.parametrize("half", HALF.values(), ids=HALF)
def test_a_request_that_is_not_finished_is_not_waited_for(served, half):
    with at_rest(served) as alice, contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(served.socket(half)) for _ in range(300)]
        assert all(alice.lists() for _ in range(5))
        until(lambda: not any(map(is_open, waiting)))


def test_a_stream_on_which_nothing_is_said_is_kept(served):
    alice = served.caller()
    session = [f"{name}: {value}".encode() for name, value in alice.begin().items()]
    stream = head(AUTHORIZED, b"accept: text/event-stream", *session, method=b"GET") + b"\r\n"
    with served.socket(stream) as standing, served.socket(HALF["half a body"]) as half:
        assert status_line(standing) == 200
        until(lambda: not is_open(half))
        assert is_open(standing)


@pytest.mark.attack("HTTP has limits", "send a body that never ends, byte by byte or as fast as it goes")
@pytest.mark.parametrize("key", [AUTHORIZED, b"x: y"], ids=["with a key", "without"])
@pytest.mark.parametrize("piece", [b"1\r\n \r\n", b"100000\r\n" + b" " * MIB + b"\r\n"], ids=["slow", "fast"])
def test_a_body_that_never_ends_is_not_waited_for(served, key, piece):
    with at_rest(served), served.socket(head(key, JSON, b"transfer-encoding: chunked") + b"\r\n") as connected:
        until(lambda: poured(connected, piece, len(piece)) == 0, pause_s=0.05 if len(piece) < MIB else 0)


@pytest.mark.attack("HTTP has limits", "send requests by the thousand without waiting for answers")
def test_requests_that_do_not_wait_are_not_queued(served):
    request = head(method=b"GET", target=b"/healthz") + b"\r\n"
    with at_rest(served), served.socket() as connected:
        poured(connected, request * 1000, 100 * MIB)
        assert answer(connected).count(b"HTTP/1.1 200") <= 1


@pytest.mark.attack("HTTP has limits", "have a stream open, send another request behind it, and leave")
def test_a_request_behind_a_stream_is_not_served_and_the_stream_goes_on(served):
    alice = served.caller()
    session = [f"{name}: {value}".encode() for name, value in alice.begin().items()]
    stream = head(AUTHORIZED, b"accept: text/event-stream", *session, method=b"GET") + b"\r\n"
    with served.socket(stream) as connected:
        assert b"text/event-stream" in connected.recv(65536)
        connected.sendall(head(method=b"GET", target=b"/healthz") + b"\r\n")
        with served.socket(stream) as second:
            assert status_line(second) == 409
        assert is_open(connected)

    def taken_up():
        with served.socket(stream) as again:
            return status_line(again) == 200

    until(taken_up)


def status_line(connected):
    return int(connected.recv(65536).split()[1])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    made = ServeProcess(
        tmp_path_factory.mktemp("small"),
        max_client_connections=60,
        max_client_connections_per_address=40,
        header_timeout_s=600,
        body_timeout_s=600,
    )
    with made.running():
        yield made


@pytest.mark.attack(
    "HTTP has limits", "take all connections with 400 unfinished requests, which time out in ten minutes only"
)
@pytest.mark.parametrize("half", HALF.values(), ids=HALF)
def test_those_who_were_not_let_in_make_way(small, half):
    session = [f"{name}: {value}".encode() for name, value in small.caller().begin().items()]
    stream = head(AUTHORIZED, b"accept: text/event-stream", *session, method=b"GET") + b"\r\n"
    with small.socket(stream) as standing, at_rest(small) as alice, contextlib.ExitStack() as stack:
        assert status_line(standing) == 200
        for n in range(400):
            stack.enter_context(small.socket())
            with contextlib.suppress(ConnectionError):
                stack.enter_context(small.socket(half))
            if n % 100 == 99:
                assert alice.lists()
        assert is_open(standing)
        assert small.said().count("too_many_connections") == 1


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory):
    made = ServeProcess(tmp_path_factory.mktemp("open"), tokens={})
    with made.running():
        yield made


@pytest.mark.attack("HTTP has limits", "starve a client with 600 unfinished requests where nobody needs a key")
@pytest.mark.parametrize("half", HALF.values(), ids=HALF)
def test_where_nobody_needs_a_key_unfinished_requests_make_way(open_to_all, half):
    with at_rest(open_to_all) as somebody, contextlib.ExitStack() as stack:
        for n in range(600):
            stack.enter_context(open_to_all.socket(half))
            if n % 100 == 99:
                assert somebody.lists()


FILES = 80


@pytest.fixture
def scarce(tmp_path):
    return ServeProcess(tmp_path, files=FILES, max_client_connections_per_address=1000, header_timeout_s=600)


@pytest.mark.attack("HTTP has limits", "take all descriptors with connections on which nothing is said")
def test_out_of_descriptors_those_who_were_not_let_in_make_way(scarce):
    with scarce.running(), at_rest(scarce) as alice, contextlib.ExitStack() as stack:
        for _ in range(3):
            for _ in range(2 * FILES):
                stack.enter_context(scarce.socket())
            until(alice.is_served)
    assert scarce.said().count("http.out_of_descriptors") == 1


@pytest.mark.attack("HTTP has limits", "take all descriptors with streams that a key opened")
def test_out_of_descriptors_it_refuses_and_recovers(scarce):
    with scarce.running(), at_rest(scarce) as alice:
        sessions = [alice.begin() for _ in range(FILES)]
        with contextlib.ExitStack() as stack:
            opened = []
            for session in sessions:
                lines = [f"{name}: {value}".encode() for name, value in session.items()]
                stream = head(AUTHORIZED, b"accept: text/event-stream", *lines, method=b"GET") + b"\r\n"
                connected = stack.enter_context(scarce.socket())
                with contextlib.suppress(ConnectionError):
                    connected.sendall(stream)
                opened.append(connected)
            until(lambda: not all(map(is_open, opened)))
            assert sum(map(is_open, opened)) > FILES // 3
        until(alice.is_served)
    assert scarce.said().count("http.out_of_descriptors") == 1


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    made = ServeProcess(
        tmp_path_factory.mktemp("shared"),
        max_sessions=8,
        max_sessions_per_principal=4,
        max_requests_per_principal=20,
        max_body_bytes_per_principal=16 * MIB,
    )
    with made.running():
        yield made


@pytest.mark.attack("HTTP has limits", "begin session after session, so that those of others make way")
def test_sessions_of_others_do_not_make_way(shared):
    with at_rest(shared) as alice:
        mine, mallory = alice.begin(), shared.caller("mallory")
        first, *_, last = [mallory.begin() for _ in range(20)]
        assert alice.ping(mine) == 200
        assert (mallory.ping(first), mallory.ping(last)) == (404, 200)
        assert [alice.ping(session) for session in [mine, *(alice.begin() for _ in range(3))]] == [200] * 4


@pytest.mark.attack("HTTP has limits", "open streams and requests until nobody else is served")
def test_what_one_principal_has_open_is_bounded(shared):
    with at_rest(shared) as alice, contextlib.ExitStack() as stack:
        session = [f"{name}: {value}".encode() for name, value in shared.caller("mallory").begin().items()]
        lines = [b"authorization: Bearer mallorys-token", b"accept: text/event-stream", *session]
        stream = head(*lines, method=b"GET") + b"\r\n"
        subscription = listening(b"authorization: Bearer mallorys-token")
        opened = [stack.enter_context(shared.socket(subscription)) for _ in range(40)]
        statuses = [status_line(connected) for connected in opened]
        assert (statuses.count(200), statuses.count(429)) == (20, 20)
        with shared.socket(stream) as connected:
            assert status_line(connected) == 429
        assert alice.lists()


def listening(key):
    """A request that is never answered."""
    params = {"_meta": META, "notifications": {"toolsListChanged": True}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).encode()
    names = b"mcp-protocol-version: 2026-07-28", b"mcp-method: subscriptions/listen"
    return head(key, JSON, *names, b"content-length: %d" % len(body)) + b"\r\n" + body


@pytest.mark.attack("HTTP has limits", "hold many bodies of 60 MB that are not finished")
def test_bodies_of_one_principal_are_bounded(shared):
    begin = head(b"authorization: Bearer mallorys-token", JSON, b"content-length: 60000000") + b"\r\n"
    with at_rest(shared) as alice, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(shared.socket(begin)) for _ in range(15)]
        poured(opened[0], b" " * MIB, 40 * MIB)
        for connected in opened[1:]:
            poured(connected, b" " * MIB, 40 * MIB)
            assert status_line(connected) == 429  # at once: the answer is lost when the time for the body is over
        assert alice.lists()
