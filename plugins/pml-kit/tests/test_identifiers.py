from __future__ import annotations

import os
import re
import time
import uuid

import pytest

from pml_kit import identifiers
from pml_kit.identifiers import execution_id, span_id, trace_id


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


def test_trace_and_span_ids_are_as_w3c_writes_them_and_follow_from_the_execution():
    made = [execution_id() for _ in range(1000)]
    assert all(re.fullmatch(r"[0-9a-f]{32}", trace_id(id)) for id in made)
    assert all(re.fullmatch(r"[0-9a-f]{16}", span_id(id)) for id in made)
    assert uuid.UUID(trace_id(made[0])) == uuid.UUID(made[0])
    assert trace_id(made[0]).endswith(span_id(made[0]))
    assert len({span_id(id) for id in made}) == len(made)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_ids_made_after_a_fork_are_others_than_the_parents():
    execution_id()
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, execution_id()[19:].encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() not in {execution_id()[19:], ""}
