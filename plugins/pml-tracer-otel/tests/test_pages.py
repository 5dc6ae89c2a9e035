"""Metrics as Prometheus reads them, their bounds, and what the doctor says."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pml_testing.fakes import FakeServices
from pml_tracer_otel import Settings, plugin
from pml_tracer_otel.measures import MOST_SERIES, Measures, Metric, Point, _Instrument, level
from pml_tracer_otel.prometheus import page


def test_prometheus_reads_names_labels_and_buckets_as_they_were():
    about = {"service.name": 'a "quoted" \\ name\nin two lines'}
    instrument = _Instrument("mcp.client.operation.duration", "s", "How long.", ("gen_ai.tool.name",), histogram=True)
    for value in (0.01, 0.011, 4, 999):
        instrument.add(('read\n"file"',), value)
    counter = _Instrument("pml.executions", "{execution}", "Ended.", ("pml.server",), histogram=False)
    counter.add(("ä\ud800",), 3)
    levels = Metric("pml.executions.active", "", "Under way.", "level", (Point({}, 2),))
    families = {
        f.name: f for f in text_string_to_metric_families(page([instrument.now(), counter.now(), levels], about))
    }
    assert families["target_info"].samples[0].labels == {"service_name": about["service.name"]}
    duration = families["mcp_client_operation_duration_seconds"]
    assert duration.type == "histogram"
    buckets = {s.labels["le"]: s.value for s in duration.samples if s.name.endswith("_bucket")}
    assert (buckets["0.01"], buckets["0.02"], buckets["5"], buckets["300"], buckets["+Inf"]) == (1, 2, 3, 3, 4)
    assert {s.labels["gen_ai_tool_name"] for s in duration.samples} == {'read\n"file"'}
    sums = {s.name.rpartition("_")[2]: s.value for s in duration.samples if not s.name.endswith("_bucket")}
    assert sums == {"sum": pytest.approx(1003.021), "count": 4}
    assert (families["pml_executions"].type, families["pml_executions"].samples[0].value) == ("counter", 3)
    assert families["pml_executions"].samples[0].labels == {"pml_server": "ä?"}
    assert (families["pml_executions_active"].type, families["pml_executions_active"].samples[0].value) == ("gauge", 2)


def test_large_counts_are_written_whole():
    counter = _Instrument("pml.executions", "", "Ended.", (), histogram=False)
    counter.add((), 12_345_678)
    (family,) = [
        f for f in text_string_to_metric_families(page([counter.now()], {"a": "b"})) if f.name != "target_info"
    ]
    assert family.samples[0].value == 12_345_678


def test_a_metric_has_no_more_series_than_it_may():
    instrument = _Instrument("calls", "", "Calls.", ("tool",), histogram=False)
    for n in range(MOST_SERIES + 500):
        instrument.add((f"t{n}",))
        instrument.add(("t0",))
    points = {tuple(point.attributes.items()): point.value for point in instrument.now().points}
    assert len(points) == MOST_SERIES
    assert points[("otel.metric.overflow", "true"),] == 501
    assert points[("tool", "t0"),] == MOST_SERIES + 501
    assert sum(points.values()) == 2 * (MOST_SERIES + 500)


def test_a_metric_that_has_nothing_to_say_is_left_out():
    measures = Measures()
    assert measures.now() == []
    measures.levels.append(level("pml.executions.active", "", "Under way.", lambda: 0))
    assert [metric.name for metric in measures.now()] == ["pml.executions.active"]


def checks(**said):
    return list(plugin.pml_checks(FakeServices(settings=Settings(**said))))


def test_the_doctor_says_nothing_of_a_collector_that_nobody_named():
    assert checks() == []


def test_the_doctor_asks_the_collector(receiver):
    (found,) = checks(endpoint=receiver.endpoint, timeout_s=2)
    assert (found.ok, found.detail) == (True, "takes what is sent")
    assert receiver.paths == ["/v1/traces", "/v1/metrics"]
    assert receiver.spans == []


def test_the_doctor_says_what_a_collector_answers_and_what_to_do(receiver):
    receiver.status = lambda: 401
    (found,) = checks(endpoint=receiver.endpoint, headers={"authorization": "Bearer hunter2"}, timeout_s=2)
    assert not found.ok
    assert "no traces:" in found.detail
    assert "401" in found.detail
    assert "headers" in found.remedy
    assert "hunter2" not in str(found)


def test_the_doctor_asks_where_the_variable_says(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k1")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    (found,) = checks()
    assert found.ok
    assert receiver.paths == ["/v1/traces"]
    assert receiver.headers[0]["x-key"] == "k1"


def test_the_doctor_names_a_variable_that_does_not_fit(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "some")
    (found,) = checks(endpoint=receiver.endpoint)
    assert not found.ok
    assert "OTEL_TRACES_SAMPLER" in found.detail
