"""What is read from the authorization server, and what is not."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from pml_oauth import fetch
from pml_oauth.fetch import Fetcher, FetchError

pytestmark = pytest.mark.anyio
HEAD = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\nconnection: close\r\n%b\r\n"


@contextlib.asynccontextmanager
async def answering(*pieces, hang=False, heard=None):
    """A server that sends these bytes to whoever asks."""

    over, busy = asyncio.Event(), set()

    async def answer(reader, writer):
        busy.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:-2])
            body = await reader.readexactly(int(lines.get("content-length", 0)))
            if heard is not None:
                heard.append(head + body.decode())
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if hang:
                await over.wait()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    finally:
        over.set()
        server.close()
        await asyncio.gather(*busy)


@pytest.fixture
async def fetcher():
    made = Fetcher()
    yield made
    await made.close()


async def test_an_object_is_read(fetcher):
    async with answering(HEAD % (b"200 OK", b"") + b'{"keys": []}') as url:
        assert await fetcher.json(url) == {"keys": []}


async def test_a_question_goes_with_who_asks_it(fetcher):
    heard = []
    async with answering(HEAD % (b"200 OK", b"") + b'{"active": true}', heard=heard) as url:
        assert await fetcher.json(url, {"token": "a&b"}, ("gateway", "secret")) == {"active": True}
    (text,) = heard
    assert text.startswith("POST /keys ")
    assert text.endswith("token=a%26b")
    assert "Basic Z2F0ZXdheTpzZWNyZXQ=" in text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HEAD % (b"404 Not Found", b"") + b"{}", "status 404"),
        (HEAD % (b"302 Found", b"location: http://127.0.0.1:1/\r\n") + b"{}", "status 302"),
        (HEAD % (b"200 OK", b"") + b"[]", "no JSON object"),
        (HEAD % (b"200 OK", b"") + b"<html>", "Expecting value"),
        (HEAD % (b"200 OK", b"") + b"[" * 100_000, "recursion"),
        (HEAD % (b"200 OK", b"") + b'{"a": "\xff"}', "codec"),
        (b"nonsense\r\n\r\n", "RemoteProtocolError"),
    ],
)
async def test_what_is_no_such_answer(answer, why, fetcher):
    async with answering(answer) as url:
        with pytest.raises(FetchError, match=why):
            await fetcher.json(url)


async def test_one_that_never_ends_is_left(fetcher):
    async with answering(HEAD % (b"200 OK", b""), *[b" " * (1 << 18)] * 5, hang=True) as url:
        with pytest.raises(FetchError, match="more than"):
            await fetcher.json(url)


async def test_one_that_does_not_answer_is_left(fetcher, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT_S", 0.2)
    async with answering(hang=True) as url:
        with pytest.raises(FetchError, match="did not answer"):
            await fetcher.json(url)


@pytest.mark.parametrize(
    "url", ["http://login.example/keys", "file:///etc/passwd", "ftp://127.0.0.1/", "https://", "http://[", ""]
)
async def test_nothing_is_read_that_somebody_on_the_way_could_change(url, fetcher):
    with pytest.raises(FetchError, match="has to be"):
        await fetcher.json(url)


async def test_nobody_listens(fetcher):
    async with answering() as url:
        pass
    with pytest.raises(FetchError, match="Connect"):
        await fetcher.json(url)
