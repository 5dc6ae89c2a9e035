"""Heads of responses are written together with what follows."""

from __future__ import annotations

import asyncio

import pytest

from pml_transport_http.server.listener.wire import ResponseWriter

pytestmark = pytest.mark.anyio
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Written:
    """A transport that keeps what is written to it."""

    def __init__(self):
        self.pieces = []

    def write(self, data):
        self.pieces.append(data)

    def close(self):
        self.pieces.append("closed")

    def get_extra_info(self, name):
        return name


@pytest.fixture
def written():
    return Written()


async def test_a_head_waits_for_its_body(written):
    transport = ResponseWriter(written)
    for piece in (HEAD, b"{}", b"more", HEAD, b""):
        transport.write(piece)
    await asyncio.sleep(0)
    assert written.pieces == [HEAD + b"{}", b"more", HEAD]


async def test_a_head_does_not_wait_long(written):
    ResponseWriter(written).write(HEAD)
    assert written.pieces == []
    await asyncio.sleep(0)
    assert written.pieces == [HEAD]


async def test_a_head_is_written_before_the_end(written):
    transport = ResponseWriter(written)
    transport.write(HEAD)
    transport.close()
    await asyncio.sleep(0)
    assert written.pieces == [HEAD, "closed"]


async def test_the_transport_does_all_the_rest(written):
    assert ResponseWriter(written).get_extra_info("peername") == "peername"
