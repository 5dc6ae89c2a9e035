"""The audit and the exporter of traces together: rows arrive at a collector as logs, and hold against the files."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

import pml_audit.plugin
import pml_tracer_otel.plugin
from pml_audit.export import exporter
from pml_core.cli import main
from pml_hookspecs import Session, ToolCall
from pml_testing.gateway import ScriptedServer, running

PATIENCE_S = 60


@contextmanager
def collector(*statuses):
    """One of OTLP over HTTP that answers with these at first, and then takes what it gets."""
    taken, left, seen = [], list(statuses), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            status = left.pop(0) if left else 200
            seen.append((self.path, self.headers.get("x-key"), status))
            if status == 200:
                taken.append(ExportLogsServiceRequest.FromString(raw))
            answer = ExportLogsServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", taken, seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def records(taken):
    return [
        record
        for request in taken
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def attributes(record):
    return {
        one.key.removeprefix("pml.audit."): one.value.string_value or one.value.int_value for one in record.attributes
    }


def gateway(endpoint, home, *, otel=True):
    plugins = {("hooks", "audit"): pml_audit.plugin}
    if otel:
        plugins[("hooks", "otel")] = pml_tracer_otel.plugin
    tables = {
        "audit": {"folder": str(home / "audit"), "otlp": True},
        "otel": {"endpoint": endpoint, "headers": {"x-key": "mine"}, "timeout_s": 1},
    }
    servers = {"fs": ScriptedServer([{"name": "read", "inputSchema": {"type": "object"}}])}
    return running(servers, plugins=plugins, tables=tables)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exporter, "LOOK_S", 0.02)
    return tmp_path / "home"


@pytest.mark.anyio
async def test_rows_arrive_at_a_collector_as_logs_though_it_refuses_some_at_first(home, tmp_path, capsys):
    with collector(500, 400) as (endpoint, taken, seen):
        async with gateway(endpoint, home) as made:
            await made.dispatcher.start(
                ToolCall(id="a", tool="fs:read", arguments={}), Session(key="k", principal="ada")
            )
            async with asyncio.timeout(PATIENCE_S):
                while "pml.audit.key.used" not in {one.event_name for one in records(taken)}:  # noqa: ASYNC110 - a thread has it
                    await asyncio.sleep(0.02)
    rows = [json.loads(line) for line in (home / "audit" / "audit.jsonl").read_text().splitlines()]
    arrived = [attributes(one) for one in records(taken)]
    assert [(one["n"], one["hash"]) for one in arrived] == [(row["n"], row["hash"]) for row in rows]
    assert {one["trail"] for one in arrived} == {rows[0]["trail"]}
    assert [json.loads(one.body.string_value)["kind"] for one in records(taken)] == [row["kind"] for row in rows]
    assert {status for path, key, status in seen if (path, key) == ("/v1/logs", "mine")} == {500, 400, 200}
    from google.protobuf.json_format import MessageToJson

    kept = tmp_path / "collected.json"  # one request a line, as the collector's file exporter has them
    kept.write_text("".join(MessageToJson(one, indent=None) + "\n" for one in taken))
    capsys.readouterr()
    assert await asyncio.to_thread(main, ["audit", "verify", "--against", str(kept)]) == 0
    assert f"{len(rows)} of {len(rows)} rows are as they were exported" in capsys.readouterr().out


@pytest.mark.anyio
async def test_without_anybody_who_knows_the_way_the_log_says_so(home, capsys):
    async with gateway("http://127.0.0.1:9", home, otel=False):
        pass
    assert "no plugin offers log_export" in capsys.readouterr().err
