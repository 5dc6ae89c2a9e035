"""A service that gives vectors, or whatever else a test wants of it; and models small enough to be made here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pml_search_embeddings.settings import Settings
from pml_testing.fakes import FakeServices

Reply = Callable[["Service", dict[str, Any]], "tuple[int, dict[str, str], Any]"]


def vector_of(text: str) -> list[float]:
    """Not of unit length; another one for each text."""
    return [float(len(text)), float(sum(map(ord, text)) % 97), 3.0]


def good(service: Service, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    """Vectors, in another order than the texts."""
    rows = [{"index": n, "embedding": vector_of(text), "object": "embedding"} for n, text in enumerate(body["input"])]
    return 200, {}, {"object": "list", "data": rows[::-1], "model": body["model"], "usage": {}}


class Service:
    """``POST /v1/embeddings`` on a port of this machine. ``replies`` are given in turn, then :func:`good` ones."""

    good, vector_of = staticmethod(good), staticmethod(vector_of)

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.replies: list[Reply] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.most_at_once = self._at_once = 0
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                service.answer(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A client that has gone is none."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self._lock:
            self.asked.append(body)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self.paths.append(handler.path)
            reply = self.replies.pop(0) if self.replies else good
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        self.may_answer.wait(10)
        status, headers, content = reply(self, body)
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        with self._lock:
            self._at_once -= 1
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(raw)

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


@pytest.fixture
async def services(anyio_backend: str) -> Any:
    made: Any = FakeServices("embeddings", settings=Settings())
    yield made
    await made.stop()
