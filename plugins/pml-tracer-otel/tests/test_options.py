from __future__ import annotations

import pytest

from pml_hookspecs import replace
from pml_tracer_otel import Settings
from pml_tracer_otel import options as options_module
from pml_tracer_otel.options import options_of


def test_what_nobody_says_has_defaults():
    options = options_of(Settings(), {})
    assert (options.traces, options.metrics, options.prometheus) == (True, True, True)
    assert options.protocols == {"traces": "http/protobuf", "metrics": "http/protobuf"}
    assert (options.client_decides, options.sample_ratio, options.delta) == (True, 1.0, False)
    assert (options.buffer_spans, options.batch_spans) == (16_384, 128)
    assert (options.interval_s, options.metrics_interval_s, options.timeout_s) == (1, 60, 10)
    assert options.follow
    assert options.propagate
    assert options.baggage


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OTEL_SDK_DISABLED": "TRUE"}, {"traces": False, "metrics": False, "prometheus": False, "propagate": False}),
        ({"OTEL_TRACES_EXPORTER": "none"}, {"traces": False, "metrics": True, "propagate": False}),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, {"traces": True, "metrics": False, "prometheus": True}),
        ({"OTEL_METRICS_EXPORTER": "prometheus,otlp"}, {"metrics": True}),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"protocols": {"traces": "grpc", "metrics": "grpc"}}),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            {"protocols": {"traces": "http/protobuf", "metrics": "grpc"}},
        ),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, {"client_decides": False, "sample_ratio": 0.0}),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
            {"client_decides": True, "sample_ratio": 0.25},
        ),
        ({"OTEL_TRACES_SAMPLER": "traceidratio"}, {"client_decides": False, "sample_ratio": 1.0}),
        ({"OTEL_PROPAGATORS": "none"}, {"follow": False, "propagate": False, "baggage": False}),
        ({"OTEL_PROPAGATORS": "tracecontext"}, {"follow": True, "propagate": True, "baggage": False}),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "100"}, {"buffer_spans": 100, "batch_spans": 100}),
        ({"OTEL_BSP_SCHEDULE_DELAY": "250"}, {"interval_s": 0.25}),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "5000"}, {"metrics_interval_s": 5.0}),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "2.5"}, {"timeout_s": 2.5}),
        ({"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "Delta"}, {"delta": True}),
    ],
)
def test_the_standard_variables_count_where_the_settings_say_nothing(variables, expected):
    options = options_of(Settings(), variables)
    assert {name: getattr(options, name) for name in expected} == expected


def test_settings_win_over_variables():
    variables = {
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_TRACES_SAMPLER": "always_off",
        "OTEL_BSP_MAX_QUEUE_SIZE": "7",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }
    said = Settings(traces=True, protocol="http/protobuf", sample_ratio=0.0, buffer_spans=9, timeout_s=3)
    options = options_of(said, variables)
    assert (options.traces, options.protocols["traces"]) == (True, "http/protobuf")
    assert (options.client_decides, options.sample_ratio) == (True, 0.0)
    assert (options.buffer_spans, options.timeout_s) == (9, 3)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "http/protobuf or grpc"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "parentbased_traceidratio"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many", "a number"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1", "not negative"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "nan", "a number"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "both", "cumulative, delta"),
    ],
)
def test_a_variable_that_does_not_fit_is_named_with_what_would(variable, value, says):
    with pytest.raises(ValueError, match=variable) as caught:
        options_of(Settings(), {variable: value})
    assert says in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_ratio_above_one_is_refused():
    variables = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}
    with pytest.raises(ValueError, match="OTEL_TRACES_SAMPLER_ARG"):
        options_of(Settings(), variables)


def test_a_protocol_that_is_not_installed_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setattr(options_module, "GRPC_MODULE", "opentelemetry.exporter.otlp.proto.nowhere.grpc")
    with pytest.raises(ValueError, match=r"pip install 'pml-tracer-otel\[grpc\]'"):
        options_of(Settings(protocol="grpc"), {})


def test_headers_are_a_secret():
    said = Settings(headers={"authorization": "Bearer hunter2"})
    assert "hunter2" not in repr(said)
    assert "hunter2" not in repr(replace(said, endpoint="http://x"))
