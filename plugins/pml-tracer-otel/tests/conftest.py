from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from types import SimpleNamespace

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

# What the exporting thread imports when it begins makes loggers. pytest looks through all that there are for each phase
# of a test, and fails where one comes meanwhile.
for exporter in ("http.trace_exporter", "http.metric_exporter", "grpc.trace_exporter", "grpc.metric_exporter"):
    with suppress(ModuleNotFoundError):
        import_module(f"opentelemetry.exporter.otlp.proto.{exporter}")

KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT"}


def value_of(any_value):
    which = any_value.WhichOneof("value")
    if which == "array_value":
        return [value_of(member) for member in any_value.array_value.values]
    return getattr(any_value, which)


def attributes_of(pairs):
    return {pair.key: value_of(pair.value) for pair in pairs}


def span_of(span):
    """A span in plain words."""
    return SimpleNamespace(
        name=span.name,
        kind=KINDS[span.kind],
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex() or None,
        remote=bool(span.flags & 0x200),
        state=span.trace_state,
        failed=span.status.code == 2,
        took_ns=span.end_time_unix_nano - span.start_time_unix_nano,
        attributes=attributes_of(span.attributes),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


class Received:
    """What came in, whichever way."""

    def __init__(self):
        self.trace_requests, self.metric_requests = [], []
        self.headers, self.raw, self.paths = [], [], []
        self.changed = threading.Condition()

    def take(self, signal, raw):
        kind = ExportTraceServiceRequest if signal == "traces" else ExportMetricsServiceRequest
        with self.changed:
            self.raw.append(raw)
            (self.trace_requests if signal == "traces" else self.metric_requests).append(kind.FromString(raw))
            self.changed.notify_all()

    def until(self, condition, within_s=60):
        with self.changed:
            assert self.changed.wait_for(condition, within_s), "it did not come"

    @property
    def spans(self):
        return [
            span_of(span)
            for request in self.trace_requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self):
        return attributes_of(self.trace_requests[0].resource_spans[0].resource.attributes)

    def metrics(self, which=-1):
        """Name to points of one request; the last if not said."""
        found = defaultdict(list)
        for resource in self.metric_requests[which].resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    found[metric.name] += [
                        SimpleNamespace(
                            attributes=attributes_of(point.attributes),
                            value=getattr(point, "as_double", 0) or getattr(point, "as_int", 0),
                            count=getattr(point, "count", None),
                            buckets=list(getattr(point, "bucket_counts", ())),
                            bounds=list(getattr(point, "explicit_bounds", ())),
                            unit=metric.unit,
                            delta=getattr(data, "aggregation_temporality", 0) == 1,
                        )
                        for point in data.data_points
                    ]
        return dict(found)


class Receiver(Received):
    """OTLP over HTTP, in this process."""

    def __init__(self, port=0):
        super().__init__()
        self.status = lambda: 200
        self.go_on = threading.Event()
        self.go_on.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.headers.append(dict(self.headers))
                receiver.paths.append(self.path)
                receiver.go_on.wait(20)
                status = receiver.status()
                signal = self.path.rpartition("/")[2]
                if status == 200:
                    receiver.take(signal, raw)
                kind = ExportTraceServiceResponse if signal == "traces" else ExportMetricsServiceResponse
                answer = kind().SerializeToString()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/x-protobuf")
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)
                except OSError:
                    return  # the gateway has given up

            def log_message(self, *_args):
                pass

        ThreadingHTTPServer.daemon_threads = True
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self):
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def new_receiver():
    made = []

    def make(port=0):
        made.append(Receiver(port))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture
def receiver(new_receiver):
    return new_receiver()


@pytest.fixture
def grpc_receiver():
    import grpc
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces

    received = Received()

    class Traces(traces.TraceServiceServicer):
        def Export(self, request, context):  # noqa: N802 - as gRPC calls it
            received.headers.append(dict(context.invocation_metadata()))
            received.take("traces", request.SerializeToString())
            return ExportTraceServiceResponse()

    class Metrics(metrics.MetricsServiceServicer):
        def Export(self, request, context):  # noqa: N802 - as gRPC calls it
            received.take("metrics", request.SerializeToString())
            return ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    traces.add_TraceServiceServicer_to_server(Traces(), server)
    metrics.add_MetricsServiceServicer_to_server(Metrics(), server)
    received.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield received
    server.stop(None).wait(5)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """Nothing that whoever runs the tests has set."""
    import os

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def site(receiver):
    """Starts gateways that export to the receiver."""
    from pml_executor_dag import Dag, tool
    from pml_testing.gateway import ScriptedServer, running
    from pml_tracer_otel import OtelTracer, plugin

    def start(server=None, *, plugins=None, tracers=("otel",), servers=None, **table):
        used = {
            ("tracer", "otel"): OtelTracer,
            ("hooks", "otel"): plugin,
            ("executor", "dag"): Dag,
            ("hooks", "workflow_tool"): tool,
            **(plugins or {}),
        }
        table = {"endpoint": receiver.endpoint, "interval_s": 0.02, **table}
        servers = servers or {"files": server or ScriptedServer()}
        return running(servers, plugins=used, tables={"otel": table}, tracers=tracers)

    return start
