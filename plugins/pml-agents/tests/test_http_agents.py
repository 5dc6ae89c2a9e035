from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agents_kit import chat, gateway

from pml_agents import http_agents

pytestmark = pytest.mark.anyio


class Service:
    """An HTTP server that answers as it is told, and keeps what it got."""

    def __init__(self):
        self.got, self.script, self.free = [], [], threading.Event()
        self.begun = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.got.append((self.path, dict(self.headers), body))
                status, kind, text, more = service.script.pop(0)
                service.begun.set()
                if text is None:
                    service.free.wait(10)
                    return
                self.send_response(status)
                for name, value in {"content-type": kind, "content-length": str(len(text)), **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(text)
                except OSError:
                    return

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answers(self, text, status=200, kind="application/json", **more):
        raw = text if text is None or isinstance(text, bytes) else json.dumps(text).encode()
        self.script.append((status, kind, raw, {k.replace("_", "-"): v for k, v in more.items()}))
        return self


@pytest.fixture
def service():
    with serving() as made:
        yield made


@contextmanager
def serving():
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.free.set()
        made.server.shutdown()
        thread.join()
        made.server.server_close()


async def test_the_message_is_posted_as_json_and_the_answer_read(service):
    service.answers({"response": "Hi.", "cost_usd": 0.25, "tokens_in": 3, "transcript": [{"type": "x"}, "y"]})
    agent = {"url": f"{service.url}/ask?x=1", "token": "hunter2hunter2", "headers": {"x-team": "red"}, "body": {"a": 1}}
    async with gateway({"w": agent}) as (made, client):
        told, failed = await chat(client, "w", "hello", context="it is Monday")
        row = await made.store.executions.get(told["execution_id"], _everyone(), transcript=True)
    assert not failed
    assert (told["response"], told["cost_usd"], told["tokens_in"]) == ("Hi.", 0.25, 3)
    ((path, headers, body),) = service.got
    assert path == "/ask?x=1"
    assert body == {"a": 1, "message": "hello", "context": "it is Monday"}
    assert headers["Authorization"] == "Bearer hunter2hunter2"
    assert headers["x-team"] == "red"
    assert headers["Idempotency-Key"] == told["execution_id"]
    assert [dict(line) for line in row.transcript] == [{"type": "x"}, {"type": "text", "text": "y"}]


def _everyone():
    from pml_hookspecs import Scope

    return Scope(principals=None)


async def test_the_body_may_be_of_any_form(service):
    service.answers({"choices": [{"message": {"content": "Hi."}}], "usage": {"prompt_tokens": 5}, "model": "m-1"})
    body = {"model": "m", "messages": [{"role": "user", "content": "{message}"}]}
    async with gateway({"w": {"url": service.url, "body": body}}) as (_, client):
        told, _ = await chat(client, "w", "hello", context="Monday")
    assert service.got[0][2] == {"model": "m", "messages": [{"role": "user", "content": "hello\n\nMonday"}]}
    assert (told["response"], told["tokens_in"]) == ("Hi.", 5)


async def test_text_and_json_lines_are_read_by_their_content_type(service):
    service.answers(b"just text", kind="text/plain; charset=utf-8")
    service.answers(b'{"type":"system"}\n{"type":"result","result":"lines"}\n', kind="application/x-ndjson")
    async with gateway({"w": {"url": service.url}}) as (_, client):
        assert [(await chat(client, "w"))[0]["response"] for _ in range(2)] == ["just text", "lines"]


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (500, b"it broke", "it answered 500 Internal Server Error: it broke"),
        (401, b"", "it answered 401 Unauthorized"),
        (302, b"", "it answered 302 Found"),
        (503, b"down", "it answered 503"),
        (200, b"{not json", "not JSON"),
        (200, b'{"nothing": 1}', "fields.response"),
    ],
)
async def test_what_is_refused_or_unreadable_is_said_and_not_asked_again(service, status, text, words):
    service.answers(text, status)
    async with gateway({"w": {"url": service.url, "attempts": 5}}) as (_, client):
        told, failed = await chat(client, "w")
    assert failed
    assert words in told["error"]
    assert len(service.got) == 1


async def test_what_surely_did_not_begin_is_asked_again(service, monkeypatch):
    monkeypatch.setattr(http_agents, "FIRST_DELAY_S", 0.01)
    service.answers(b"slow down", 429).answers(b"later", 503, retry_after="0").answers({"response": "Hi."})
    async with gateway({"w": {"url": service.url, "attempts": 3}}) as (_, client):
        told, failed = await chat(client, "w")
    assert not failed
    assert told["response"] == "Hi."
    assert len({headers["Idempotency-Key"] for _, headers, _ in service.got}) == 1


async def test_a_host_that_is_not_there_is_tried_as_often_as_allowed(monkeypatch):
    monkeypatch.setattr(http_agents, "FIRST_DELAY_S", 0.01)
    with serving() as gone:
        url = gone.url
    async with gateway({"w": {"url": url, "attempts": 2}}) as (_, client):
        told, failed = await chat(client, "w")
    assert failed
    assert "cannot be reached" in told["error"]
    assert "(2 attempts)" in told["error"]


async def test_a_connection_that_breaks_is_not_asked_again(service):
    service.answers(None)
    service.free.set()
    async with gateway({"w": {"url": service.url}}) as (_, client):
        told, failed = await chat(client, "w")
    assert failed
    assert "the connection to 127.0.0.1" in told["error"]
    assert len(service.got) == 1


async def test_an_endpoint_that_does_not_answer_is_given_up(service):
    service.answers(None)
    async with gateway({"w": {"url": service.url, "timeout_s": 0.3}}) as (_, client):
        told, failed = await chat(client, "w")
    assert failed
    assert "took longer than 0.3 s" in told["error"]


async def test_a_cancelled_call_lets_go_of_the_connection(service):
    service.answers(None)
    async with gateway({"w": {"url": service.url}}) as (_, client):
        asked = asyncio.create_task(chat(client, "w"))
        await asyncio.to_thread(service.begun.wait, 5)
        asked.cancel()
        await asyncio.wait([asked], timeout=2)
        assert asked.cancelled()


async def test_long_answers_are_cut_and_endless_ones_refused(service):
    service.answers(b"x" * 5000, kind="text/plain").answers(b"x" * 200_000, kind="text/plain")
    async with gateway({"w": {"url": service.url, "max_output_bytes": 1024}}) as (_, client):
        long, _ = await chat(client, "w")
        endless, failed = await chat(client, "w")
    assert "bytes left out" in long["response"]
    assert failed
    assert "answered without end" in endless["error"]
