"""Traffic as servers and clients send it, spoilt in many ways, and what has to become of it.

The model reads a stream as simply as it can be read, with nothing but :mod:`json`, and without a thought for speed. It
shares no code with the transport, but for the id that is recovered from a line which is not JSON.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from random import Random

from pml_hookspecs import RawObject, RpcError, TransportError
from pml_kit.jsonrpc import envelope
from pml_kit.jsonrpc.lines import LinePeer

LIMIT_BYTES = 1 << 20
LONG_S = 1e6
TOKENS = (
    *(b'"id":', b'"method":', b'"result":', b'"error":', b'"params":', b'"jsonrpc":"2.0",', b"{", b"}", b"[", b"]"),
    *(b",", b":", b'"', b"\\", b"\n", b"\r\n", b"\r", b" ", b"\t", b"\x00", b"\xef\xbb\xbf", b"\xff", b"\xc3"),
    *(b"\xed\xa0\x80", b"\\ud800", b"\\u0000", "\u2028".encode(), "\U0001f600".encode(), b"null", b"true", b"NaN"),
    *(b"-Infinity", b"1e999", b"0", b"1", b"7", b"42", b"-1", b".0", b"1.5", b"9" * 30, b'"id":1', b'"id":null,'),
    *(b"[" * 50, b"x" * 5000, b"notifications/cancelled", b'{"method":"m"}', b'{"id":1,"result":{}}'),
)
"""What mistakes are made of. No nesting near Python's limit, no number too long for it: those have tests of their own,
because what is right depends on the depth of the stack."""
NOTES = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":0.5}}',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"line %d\\n"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"enough"}}',
    '{{"jsonrpc":"2.0","method":"notifications/résumé","params":{{"text":"é€😀","n":%d}}}}'.replace("{{", "{")
    .replace("}}", "}")
    .encode(),
    b'{"jsonrpc":"2.0","id":%d,"method":"roots/list"}',
    b'{"jsonrpc":"2.0","id":"q%d","method":"sampling/createMessage","params":{"messages":[]}}',
    b'{"jsonrpc":"2.0","id":"%d","method":"elicitation/create","params":[]}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"%d"}}',
    b'[{"id":%d,"method":"ping"},{"method":"notifications/x"},5,{"method":"notifications/y"}]',
    b'{"jsonrpc":"2.0","id":%d,"method":"ping","result":{"not":"an answer"}}',
    b"INFO server is ready, %d tools",
    b'  {"id":%d}  ',
)
ANSWERS = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"answer to %d"}]}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"of":%d,"deep":[[{"id":3,"result":{}}]],"f":1.50,"n":null}}',
    b'{"id":"%d","result":{"of":%d}}',
    b'{"result":{"of":%d,"id":5},"id":%d,"jsonrpc":"2.0"}',
    b'[{"jsonrpc":"2.0","id":%d,"result":{"of":%d}}]',
    b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"no %d","data":{"x":1}}}',
    b'{"jsonrpc":"2.0","id":%d,"result":null,"of":%d}',
    b'{"jsonrpc":"2.0","id":%d.0,"error":null,"result":{"of":%d}}',
    b'{"jsonrpc":"2.0","id":%d.5,"result":{"to nobody":%d}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"ping","result":{"not an answer":%d}}',
)


def spoilt(random: Random, line: bytes, other: bytes) -> bytes:
    """The line with one mistake in it: a wrong byte, the end or a part missing, something put in, twice or instead."""
    place = random.randrange(len(line) + 1)
    end = place + 1 + random.randrange(12)
    head, tail = line[:place], line[place:]
    made = (
        lambda: head + bytes((random.randrange(256),)) + tail[1:],
        lambda: head,
        lambda: head + TOKENS[random.randrange(len(TOKENS))] + tail,
        lambda: head + TOKENS[random.randrange(len(TOKENS))] + tail,
        lambda: head + line[end:],
        lambda: line[:end] + tail,
        lambda: head + other[random.randrange(len(other)) :],
        lambda: tail + head,
    )
    return made[random.randrange(len(made))]()


def stream(random: Random, open_ids: list[int], notes: int, spoilt_of_ten: int = 6) -> bytes:
    """Answers to all that is open and some more messages, some of them spoilt, in any order."""
    lines = [ANSWERS[random.randrange(len(ANSWERS))] % (key, key) for key in open_ids]
    lines += [NOTES[random.randrange(len(NOTES))] % random.randrange(9) for _ in range(notes)]
    random.shuffle(lines)
    for place, line in enumerate(lines):
        if random.randrange(10) < spoilt_of_ten:
            for _ in range(1 + random.randrange(3)):
                lines[place] = spoilt(random, lines[place], line)
            if not lines[place]:
                lines[place] = b" "
    return b"\n".join(lines) + b"\n"


def cut(random: Random, data: bytes, pieces: int) -> list[bytes]:
    """``data`` in about so many pieces."""
    places = sorted(random.randrange(len(data) + 1) for _ in range(pieces - 1))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


# What has to become of it.


class Model:
    """What a connection with these open requests has to make of a stream."""

    def __init__(self, open_ids: list[int]) -> None:
        self.open = set(open_ids)
        self.outcomes: dict[int, object] = {}
        """Of requests, by id: a result, an error as a tuple, or None where there is no use in the answer."""
        self.notes: list[str] = []
        self.running: list[object] = []
        """Ids of the peer's requests."""

    def read(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            self._line(line)

    def _line(self, line: bytes) -> None:
        text = line.decode(errors="replace").lstrip("\ufeff").strip()
        if not text:
            return
        try:
            value = json.loads(text, strict=False)
        except ValueError:
            key = envelope.recover_id(line)
            if key is not None:
                assert re.search(rb'"id"\s*:\s*"?0*%d\D' % key, line + b" ")
                self._answer(key, None)
            return
        for item in value if isinstance(value, list) and value else [value]:
            if isinstance(item, dict):
                self._message(item)

    def _message(self, item: dict) -> None:
        key = item.get("id")
        if isinstance(key, (bool, list, dict)) or (isinstance(key, float) and not math.isfinite(key)):
            return
        if "method" not in item:
            self._response(key, item)
        elif isinstance(item["method"], str):
            if key is not None:
                self.running.append(key)
            elif item["method"] == "notifications/cancelled":
                params = item.get("params")
                wanted = params.get("requestId") if isinstance(params, dict) else None
                self.running = [key for key in self.running if not (key == wanted and type(key) is type(wanted))]
            else:
                self.notes.append(item["method"])

    def _response(self, key: object, item: dict) -> None:
        if isinstance(key, str):
            key = int(key) if re.fullmatch("[0-9]{1,18}", key) else None
        if key is None or key != int(key):
            return
        error = item.get("error")
        if error is not None:
            code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
            self._answer(
                int(key), (code if type(code) is int else -32603, message if isinstance(message, str) else ...)
            )
        else:
            self._answer(int(key), item["result"] if isinstance(item.get("result"), dict) else None)

    def _answer(self, key: int, outcome: object) -> None:
        if key in self.open:
            self.open.remove(key)
            self.outcomes[key] = outcome


class Quiet:
    """No log."""

    def __getattr__(self, level):
        return lambda *args, **fields: None


class Taker:
    """A handler that keeps the names of notifications and answers everything."""

    def __init__(self):
        self.notes = []

    async def request(self, method, params, origin):
        return {}

    def notification(self, method, params):
        assert params.raw[:1] == b"{"
        self.notes.append(method)

    def closed(self, error):
        pass


class Paper:
    """A writer that keeps everything."""

    def __init__(self):
        self.chunks, self.size = [], 0

    def write(self, chunks, *, now=False):
        self.chunks += chunks


class Rig:
    """A connection and its model, fed alike."""

    def __init__(self, settings) -> None:
        self.connection = LinePeer("the peer", settings, Quiet())
        self.connection.handler, self.connection.writer = Taker(), Paper()
        self._last = 0

    async def ask(self, count: int) -> dict[int, asyncio.Task]:
        """Open so many requests; by id."""
        tasks = [asyncio.ensure_future(self.connection.request("m", {}, timeout_s=LONG_S)) for _ in range(count)]
        await asyncio.sleep(0)
        first, self._last = self._last + 1, self._last + count
        return dict(zip(range(first, self._last + 1), tasks, strict=True))

    async def round(self, random: Random, asked: dict[int, asyncio.Task], data: bytes, pieces: int) -> None:
        """Feed a stream, then one sound answer, and compare.

        Raises:
            AssertionError: The connection made something else of it than the model.
        """
        sentinel = max(asked)
        data += b'\n{"jsonrpc":"2.0","id":%d,"result":{"last":%d}}\n' % (sentinel, sentinel)
        model = Model(list(asked))
        model.read(data)
        handler, writer = self.connection.handler, self.connection.writer
        handler.notes, writer.chunks = [], []
        for piece in cut(random, data, pieces):
            self.connection.data_received(piece)
        for _ in range(3):
            await asyncio.sleep(0)
        assert handler.notes == model.notes
        assert sentinel in model.outcomes
        for key, task in asked.items():
            if key in model.outcomes:
                _check(key, task, model.outcomes[key])
            else:
                assert not task.done(), f"request {key} was answered by nothing"
        answered = [json.loads(line) for line in b"".join(writer.chunks).splitlines()]
        assert sorted(json.dumps(a["id"]) for a in answered) == sorted(json.dumps(key) for key in model.running)
        for key in model.open:
            asked[key].cancel()
        await asyncio.gather(*(asked[key] for key in model.open), return_exceptions=True)
        assert (self.connection.pending, len(self.connection.running)) == (0, 0)


def _check(key: int, task: asyncio.Task, expected: object) -> None:
    assert task.done(), f"request {key} was not answered"
    failure = task.exception()
    if expected is None:
        assert isinstance(failure, TransportError), f"request {key}: {failure!r} instead of a refusal"
    elif isinstance(expected, tuple):
        assert isinstance(failure, RpcError), f"request {key}: {failure!r} instead of an error"
        assert failure.code == expected[0]
        assert expected[1] in (..., failure.message)
    else:
        assert failure is None, f"request {key}: {failure!r} instead of a result"
        result = task.result()
        assert type(result) is RawObject
        assert b"\n" not in result.raw
        assert json.dumps(result.value) == json.dumps(expected), f"request {key} got the answer to another"
