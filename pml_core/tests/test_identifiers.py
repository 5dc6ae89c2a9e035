from __future__ import annotations

import re
import time
import uuid

from pml_core import identifiers
from pml_core.identifiers import execution_id, span_id, trace_id


def test_an_execution_id_is_a_uuid_of_version_7():
    for _ in range(200):
        text = execution_id()
        made = uuid.UUID(text)
        assert (str(made), made.version, made.variant) == (text, 7, uuid.RFC_4122)


def test_an_execution_id_holds_the_time_in_milliseconds():
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(execution_id()).int >> 80
    assert before <= made <= time.time_ns() // 1_000_000


def test_execution_ids_sort_by_time_within_a_millisecond_too(monkeypatch):
    start = 1_700_000_000_000_000_000
    made = []
    for step_ns in range(0, 3_000_000, 1_000):
        monkeypatch.setattr(identifiers.time, "time_ns", lambda at=start + step_ns: at)
        made.append(execution_id())
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_execution_ids_of_the_same_instant_differ(monkeypatch):
    monkeypatch.setattr(identifiers.time, "time_ns", lambda: 1_700_000_000_123_456_789)
    made = {execution_id() for _ in range(1000)}
    assert len(made) == 1000
    assert len({text[:18] for text in made}) == 1


def test_trace_and_span_ids_are_as_w3c_writes_them():
    assert re.fullmatch(r"[0-9a-f]{32}", trace_id())
    assert re.fullmatch(r"[0-9a-f]{16}", span_id())
    assert len({span_id() for _ in range(100)}) == 100
