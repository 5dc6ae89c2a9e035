"""Two gateways that trace: what a client's request sets off is one trace, whichever of them the request comes to."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
from balanced import PATIENCE_S, accepting, initialize, request
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.anyio
TRACES = ("4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c")
SPAN = "00f067aa0ba902b7"
OTEL = """
[plugins.otel]
endpoint = "{endpoint}"
interval_s = 0.1
"""


class Collector:
    """OTLP over HTTP, in this process."""

    def __init__(self):
        collector, self.spans, self.changed = self, [], threading.Condition()
        """Each with the gateway that ended it: that one's name, the trace, the span and its parent."""

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path.endswith("traces"):
                    collector.take(ExportTraceServiceRequest.FromString(raw))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, exported):
        with self.changed:
            for resource in exported.resource_spans:
                said = {one.key: one.value.string_value for one in resource.resource.attributes}
                self.spans += [
                    (said["service.instance.id"], span.name, span.trace_id.hex(), span.parent_span_id.hex())
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
            self.changed.notify_all()

    def until(self, many):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= many, PATIENCE_S), self.spans
            return tuple(self.spans)


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


async def call_in_session(url, session, traceparent):
    params = {"name": "bank__pay", "arguments": {"to": "x"}}
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    headers = {**accepting(""), "mcp-session-id": session, "traceparent": traceparent}
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
        return await http.post(url, json=message, headers=headers)


async def test_the_trace_of_a_header_goes_on_also_where_the_request_is_led_to_another_gateway(fleet, collector):
    with fleet(2, gateway='tracers = ["otel"]', more=OTEL.format(endpoint=collector.endpoint)).running() as running:
        first, second = running.gateways
        session = await initialize(first.url, "")
        led, own = (f"00-{trace}-{SPAN}-01" for trace in TRACES)
        answered = await call_in_session(second.url, session, led)
        assert answered.status_code == 200, (answered.text, running.logs())
        params = {"name": "bank__pay", "arguments": {"to": "y"}}
        assert "result" in await request(second.url, "tools/call", params, headers={"traceparent": own})
        spans = collector.until(4)
    by_trace = {trace: {name: (who, parent) for who, name, of, parent in spans if of == trace} for trace in TRACES}
    for told in by_trace.values():
        assert set(told) == {"tools/call bank:pay", "tools/call pay"}
        assert told["tools/call bank:pay"][1] == SPAN
    gateways = [{who for who, _ in told.values()} for told in by_trace.values()]
    assert all(len(each) == 1 for each in gateways)
    assert gateways[0] != gateways[1]
