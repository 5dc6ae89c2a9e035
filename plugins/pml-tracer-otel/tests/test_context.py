from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as api
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pml_hookspecs import RawObject, ToolCall, ToolId
from pml_kit.identifiers import execution_id, trace_id
from pml_tracer_otel.context import Trace, kept, remote_of, with_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
hexadecimal = st.text("0123456789abcdef", min_size=1)


def theirs(text):
    """What OpenTelemetry's own propagator makes of it."""
    context = TraceContextTextMapPropagator().extract({"traceparent": text})
    span = api.get_current_span(context).get_span_context()
    return (f"{span.trace_id:032x}", f"{span.span_id:016x}", span.trace_flags & 1) if span.is_valid else None


def ours(text):
    remote = remote_of({"traceparent": text})
    return None if remote is None else (remote.trace_id, remote.span_id, remote.flags & 1)


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"01-{TRACE}-{SPAN}-00-what-comes-later", True),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}", False),
        (f"00-{TRACE}-{SPAN}-01\n", False),
        ("", False),
    ],
)
def test_a_parent_is_read_as_the_recommendation_has_it(text, understood):
    assert (ours(text) is not None) is understood


@given(
    st.builds(
        "{}-{}-{}-{}".format,
        st.sampled_from(["00", "cc", "ff"]),
        st.one_of(st.just(TRACE), st.just("0" * 32), hexadecimal),
        st.one_of(st.just(SPAN), st.just("0" * 16), hexadecimal),
        st.sampled_from(["00", "01", "02", "03", "ff", "1"]),
    )
)
def test_a_parent_is_read_as_others_read_it(text):
    assert ours(text) == theirs(text)


@given(st.booleans(), st.booleans())
def test_what_is_written_is_read_by_others(sampled, random):
    trace = Trace(TRACE, sampled=sampled)
    trace.random = random
    assert theirs(trace.parent(SPAN)) == (TRACE, SPAN, int(sampled))


@given(st.one_of(st.none(), st.integers(), st.text(), st.dictionaries(st.text(), st.integers()), st.lists(st.text())))
def test_nothing_that_a_client_sends_as_its_context_raises(value):
    for meta in (value, {"traceparent": value}, {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": value}):
        remote_of(meta)


def test_state_and_baggage_that_are_too_long_are_not_handed_on():
    meta = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=" + "x" * 600, "baggage": "a=" + "x" * 9000}
    assert remote_of(meta)[-2:] == ("", "")


def test_a_part_is_kept_of_the_traces_that_the_gateway_makes():
    ids = [trace_id(execution_id()) for _ in range(4000)]
    for ratio in (0.1, 0.5, 0.9):
        assert abs(sum(kept(each, ratio) for each in ids) / len(ids) - ratio) < 0.05
    assert all(kept(each, 1.0) for each in ids)
    assert not any(kept(each, 0.0) for each in ids)


def test_a_trace_that_is_kept_by_few_is_kept_by_many():
    ids = [trace_id(execution_id()) for _ in range(1000)]
    assert {each for each in ids if kept(each, 0.2)} <= {each for each in ids if kept(each, 0.6)}


def test_what_else_a_call_carries_stays_as_it_is():
    extra = RawObject(b'{"task":{"ttl":1},"_meta":{"a/b":12345678901234567890,"traceparent":"old","baggage":"x=1"}}')
    task = ToolCall(id="c", tool=ToolId("s:t"), arguments={"a": 1}, extra=extra, depends_on=("b",))
    told = with_context(task, Trace(TRACE, sampled=True), SPAN, baggage=True)
    assert (told.id, told.tool, told.arguments, told.depends_on) == ("c", "s:t", {"a": 1}, ("b",))
    assert told.extra == {
        "task": {"ttl": 1},
        "_meta": {"a/b": 12345678901234567890, "traceparent": f"00-{TRACE}-{SPAN}-03"},
    }


def test_a_request_whose_meta_is_no_object_is_left_alone():
    task = ToolCall(id="c", tool=ToolId("s:t"), extra={"_meta": 5})
    assert with_context(task, Trace(TRACE, sampled=True), SPAN, baggage=True) is task
