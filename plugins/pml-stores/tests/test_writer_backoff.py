"""Who writes gives way to who reads, for a short time."""

from __future__ import annotations

import threading
import time

import pytest

from pml_stores.writer_backoff import WriterBackoff


@pytest.fixture
def way():
    return WriterBackoff()


def giving(way):
    """A thread that writes."""
    thread = threading.Thread(target=way.give_way)
    thread.start()
    return thread


def took_s(way):
    began = time.monotonic()
    way.give_way()
    return time.monotonic() - began


def test_the_writer_waits_until_nobody_reads(way):
    way.begin(30.0)
    with way.reading():
        with way.reading():
            writer = giving(way)
            writer.join(0.05)
            assert writer.is_alive()
        writer.join(0.05)
        assert writer.is_alive()
    writer.join(10)
    assert not writer.is_alive()
    assert took_s(way) < 5


def test_its_patience_is_for_a_whole_batch(way):
    way.begin(0.2)
    with way.reading():
        assert took_s(way) >= 0.19
        way.give_way()
        began = time.monotonic()
        for _ in range(100):
            way.give_way()
        assert time.monotonic() - began < 5
        assert way.waited_s >= 0.19
        way.begin(0.2)
        assert way.waited_s == 0
        assert took_s(way) >= 0.19


def test_it_has_none_while_somebody_waits_for_it(way):
    way.begin(30.0)
    with way.reading():
        writer = giving(way)
        writer.join(0.05)
        assert writer.is_alive()
        way.hurry()
        writer.join(10)
        assert not writer.is_alive()
        assert took_s(way) < 5


def test_a_failed_question_is_over_too(way):
    way.begin(30.0)
    with pytest.raises(ValueError, match="gone"), way.reading():
        raise ValueError("gone")
    assert took_s(way) < 5
