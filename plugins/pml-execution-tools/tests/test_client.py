from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pml_execution_tools.client import (
    AsyncHistoryClient,
    GatewayFailedError,
    HistoryClient,
    KeyRefusedError,
    NoSuchExecutionError,
    NotAllowedError,
    TooOftenError,
    UnreachableError,
    WrongParameterError,
)
from pml_hookspecs import Status

pytestmark = pytest.mark.anyio


class Scripted:
    """A server that notes what is asked and says what it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.status, self.body = "200 OK", b"{}"
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        said = dict(line.lower().split(": ", 1) for line in headers if line)
        self.asked.append((first.split()[1], said.get("authorization", "")))
        head = f"HTTP/1.1 {self.status}\r\ncontent-type: application/json\r\ncontent-length: {len(self.body)}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode() + self.body)
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def scripted(anyio_backend):
    made = Scripted()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()
    await server.wait_closed()


@pytest.fixture(params=["async", "sync"])
async def ask(request, anyio_backend) -> Any:
    """Ask by either client, as one would by the async one."""

    def by_sync(url: str, method: str, args: Any, kwargs: Any, key: str | None) -> Any:
        with HistoryClient(url, key=key, timeout_s=5) as client:
            return getattr(client, method)(*args, **kwargs)

    async def ask(url: str, method: str, *args: Any, key: str | None = None, **kwargs: Any) -> Any:
        if request.param == "sync":
            return await asyncio.to_thread(by_sync, url, method, args, kwargs, key)
        async with AsyncHistoryClient(url, key=key, timeout_s=5) as client:
            return await getattr(client, method)(*args, **kwargs)

    return ask


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "path"),
    [
        ("list_recent_executions", [], {}, "/api/executions"),
        (
            "list_recent_executions",
            [],
            {"agent_name": "a b", "status": "failed", "triggered_by": "mcp", "hours": 2, "limit": 5, "cursor": "c"},
            "/api/executions?agent_name=a+b&status=failed&triggered_by=mcp&hours=2&limit=5&cursor=c",
        ),
        ("search_executions", ["two words"], {"hours": 1}, "/api/executions/search?query=two+words&hours=1"),
        ("search_executions", ["x"], {"since": "90d"}, "/api/executions/search?query=x&since=90d"),
        (
            "get_activity_summary",
            [],
            {"since": "2026-01-01", "until": "2026-01-31"},
            "/api/executions/summary?since=2026-01-01&until=2026-01-31",
        ),
        ("get_execution_result", ["ruby-agent", "x1"], {}, "/api/agents/ruby-agent/executions/x1"),
        (
            "get_execution_result",
            ["a/b c", "x?1"],
            {"include_transcript": True},
            "/api/agents/a%2Fb%20c/executions/x%3F1?include_log=true",
        ),
        ("get_activity_summary", [], {}, "/api/executions/summary"),
        (
            "get_activity_summary",
            [],
            {"agent_name": "a", "hours": 168},
            "/api/executions/summary?agent_name=a&hours=168",
        ),
    ],
)
async def test_only_what_is_given_is_sent(scripted, ask, method, args, kwargs, path):
    await ask(scripted.url + "/", method, *args, **kwargs)
    await ask(scripted.url, method, *args, key="k1", **kwargs)
    assert scripted.asked == [(path, ""), (path, "bearer k1")]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, KeyRefusedError),
        (403, NotAllowedError),
        (404, NoSuchExecutionError),
        (422, WrongParameterError),
        (429, TooOftenError),
        (500, GatewayFailedError),
        (504, GatewayFailedError),
    ],
)
async def test_each_refusal_is_an_error_of_its_own_kind(scripted, ask, status, kind):
    scripted.status = f"{status} Refused"
    scripted.body = json.dumps({"error": {"code": "c", "message": "What to do.", "retry_after_s": 2.5}}).encode()
    with pytest.raises(kind) as caught:
        await ask(scripted.url, "list_recent_executions")
    assert (type(caught.value), str(caught.value), caught.value.status) == (kind, "What to do.", status)
    assert caught.value.code == "c"
    if kind is TooOftenError:
        assert caught.value.retry_after_s == 2.5


@pytest.mark.parametrize(
    ("status", "body"), [("200 OK", b"<html>"), ("200 OK", b"[]"), ("502 Bad", b"<html>"), ("404 No", b'{"error":1}')]
)
async def test_something_else_that_answers_is_named(scripted, ask, status, body):
    scripted.status, scripted.body = status, body
    with pytest.raises(UnreachableError, match="no answer of PML's history"):
        await ask(scripted.url, "list_recent_executions")


async def test_where_nobody_listens_the_address_is_named(ask, unused_tcp_port):
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{unused_tcp_port}.*cannot be reached"):
        await ask(f"http://127.0.0.1:{unused_tcp_port}", "list_recent_executions")


@pytest.fixture
def unused_tcp_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def test_the_client_gets_what_the_gateway_knows(served, ask):
    history = served.history
    lines = [{"type": "assistant", "text": "ActivityCounts"}]
    await history.put(
        history.record("one", principal="alice", transcript=lines, response="15 invoices", cost_usd=0.5),
        history.record("two", principal="alice", status=Status.ERROR, response=None),
        history.record("three", principal="bob"),
    )
    listed = await ask(served.url, "list_recent_executions", key="alice", agent_name="ruby-agent", limit=1)
    assert (listed["total_count"], len(listed["executions"])) == (2, 1)
    rest = await ask(
        served.url, "list_recent_executions", key="alice", agent_name="ruby-agent", cursor=listed["next_cursor"]
    )
    assert {e["id"] for e in (*listed["executions"], *rest["executions"])} == {"one", "two"}
    found = await ask(served.url, "search_executions", "15", key="alice")
    assert [e["id"] for e in found["executions"]] == ["one"]
    plain = await ask(served.url, "get_execution_result", "ruby-agent", "one", key="alice")
    assert (plain["execution"]["response"], "transcript" in plain["execution"]) == ("15 invoices", False)
    whole = await ask(served.url, "get_execution_result", "ruby-agent", "one", include_transcript=True, key="alice")
    assert whole["execution"]["transcript"] == lines
    summary = await ask(served.url, "get_activity_summary", agent_name="ruby-agent", key="alice")
    assert (summary["summary"]["success_rate"], summary["summary"]["total_cost_usd"]) == (50.0, 0.5)
    fleet = await ask(served.url, "get_activity_summary", key="bob")
    assert fleet["by_agent"][0]["executions"] == 1
    with pytest.raises(NoSuchExecutionError):
        await ask(served.url, "get_execution_result", "ruby-agent", "three", key="alice")
    with pytest.raises(KeyRefusedError, match="MCP API key authentication required"):
        await ask(served.url, "list_recent_executions")
