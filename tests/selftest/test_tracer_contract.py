from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from xml.etree import ElementTree as ET

import pytest

TRACERS = """
from __future__ import annotations

import asyncio
import time
from collections import deque

MOST = 5000


class Good:
    def __init__(self, settings=None, services=None):
        self.services, self.buffer, self.dropped, self.calls = services, deque(), 0, 0
        self.event = asyncio.Event()

    async def __aenter__(self):
        self.services.spawn(self.drain, name="drain")
        return self

    async def __aexit__(self, *exc):
        await self.flush()

    def started(self, span):
        self.calls += 1

    def ended(self, ended):
        if len(self.buffer) < MOST:
            self.buffer.append(ended)
            self.event.set()
        else:
            self.dropped += 1

    async def drain(self):
        while True:
            await self.event.wait()
            self.event.clear()
            await asyncio.sleep(0.01)
            await self.flush()

    async def flush(self):
        batch, self.buffer = list(self.buffer), deque()
        try:
            await self.deliver(batch)
        except Exception:
            self.dropped += len(batch)

    async def deliver(self, batch):
        if batch:
            await self.services.store.traces.append(batch)


class KeepsNothingBack(Good):
    def __init__(self, settings=None, services=None):
        self.log = services.log

    async def __aenter__(self):
        return self

    def started(self, span):
        pass

    def ended(self, ended):
        self.log.debug("span", span_id=ended.span.span_id)

    async def flush(self):
        pass


class Blocks(Good):
    def started(self, span):
        super().started(span)
        if self.calls < 600:
            time.sleep(0.00025)


class IsACoroutine(Good):
    async def started(self, span):
        pass


class ShipsInTheRequestPath(Good):
    def started(self, span):
        super().started(span)
        if self.calls < 3000 and self.calls % 50 == 0:
            time.sleep(0.006)


class DeliversTwice(Good):
    async def deliver(self, batch):
        await super().deliver(batch * 2)


class DeliversEverythingAtEachFlush(Good):
    def __init__(self, settings=None, services=None):
        super().__init__(settings, services)
        self.all = []

    async def deliver(self, batch):
        self.all += batch
        await super().deliver(self.all)


class LosesOne(Good):
    async def deliver(self, batch):
        await super().deliver([e for e in batch if int(e.span.span_id, 16) != 250])


class LosesChildrenThatEndAfterTheirParent(Good):
    def ended(self, ended):
        if ended.span.parent_id is None:
            super().ended(ended)


class DeliversOnlyWhenFlushed(Good):
    async def drain(self):
        pass


class DeliversInTheBackgroundOnce(Good):
    async def drain(self):
        await self.event.wait()
        await self.flush()


class DeliversGoodNewsOnly(Good):
    def ended(self, ended):
        if ended.status.good:
            super().ended(ended)


class DeliversUnfinishedSpans(Good):
    def __init__(self, settings=None, services=None):
        super().__init__(settings, services)
        self.open = {}

    def started(self, span):
        self.open[span.span_id] = span

    def ended(self, ended):
        self.open.pop(ended.span.span_id, None)
        super().ended(ended)
        self.last = self.buffer[-1]

    async def deliver(self, batch):
        from pml_hookspecs import replace
        await super().deliver(batch + [replace(self.last, span=span) for span in self.open.values()])


class FlushesSlowly(Good):
    async def deliver(self, batch):
        await asyncio.sleep(len(batch) / 4_000)
        await super().deliver(batch)


class BuffersWithoutBound(Good):
    def ended(self, ended):
        self.buffer.append(ended)
        self.event.set()


class DoesNotCountDrops(Good):
    dropped = property(lambda self: 0, lambda self, value: None)


class RaisesWhenTheStoreDoes(Good):
    async def flush(self):
        batch, self.buffer = list(self.buffer), deque()
        try:
            await self.deliver(batch)
        except RuntimeError:
            pass


class NeedsAStore(Good):
    async def flush(self):
        batch, self.buffer = list(self.buffer), deque()
        try:
            await self.deliver(batch)
        except OSError:
            pass


class NeedsAnEventLoop(Good):
    def __init__(self, settings=None, services=None):
        super().__init__(settings, services)
        asyncio.get_running_loop()
"""
HEAD = """
import pytest
import tracers
from pml_testing.tracer import TracerContract
"""
TEMPLATE = """

class Test{name}(TracerContract):
    flush_limit_s = 1.0
    meanwhile_s = 1.5
    most_buffered = 10_000

    @pytest.fixture
    def tracer_type(self):
        return tracers.{name}
"""
EXPECTED: dict[str, set[str]] = {
    "Good": set(),
    "KeepsNothingBack": set(),
    "Blocks": {"test_starting_and_ending_a_span_do_not_block"},
    "IsACoroutine": {"test_starting_and_ending_a_span_do_not_block"},
    "ShipsInTheRequestPath": {"test_no_call_does_the_work_of_many"},
    "DeliversTwice": {"test_every_finished_span_is_delivered_once"},
    "DeliversEverythingAtEachFlush": {"test_every_finished_span_is_delivered_once"},
    "LosesOne": {"test_every_finished_span_is_delivered_once"},
    "LosesChildrenThatEndAfterTheirParent": {"test_every_finished_span_is_delivered_once"},
    "DeliversOnlyWhenFlushed": {"test_spans_are_delivered_while_the_gateway_runs"},
    "DeliversInTheBackgroundOnce": {"test_spans_are_delivered_while_the_gateway_runs"},
    "DeliversGoodNewsOnly": {"test_spans_are_delivered_however_they_ended"},
    "DeliversUnfinishedSpans": {"test_a_span_that_has_not_ended_is_not_delivered"},
    "FlushesSlowly": {"test_a_flush_ends_in_time"},
    "BuffersWithoutBound": {"test_what_is_buffered_is_bounded"},
    "DoesNotCountDrops": {"test_what_is_dropped_is_counted"},
    "RaisesWhenTheStoreDoes": {"test_a_store_out_of_order_raises_nothing"},
    "NeedsAStore": {"test_a_missing_store_raises_nothing"},
    "NeedsAnEventLoop": {"test_is_constructed_without_an_event_loop"},
}
"""Tracer to the contract tests that fail when called; errors while it is taken down are not counted."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Tracer to the tests that failed: one run of the contract over all tracers, in a process of its own."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "tracers.py").write_text(TRACERS)
    (folder / "test_tracers.py").write_text(HEAD + "".join(TEMPLATE.format(name=name) for name in EXPECTED))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --import-mode=importlib\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=run.xml", "test_tracers.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    found = defaultdict(set)
    for case in ET.parse(folder / "run.xml").iter("testcase"):
        tracer = case.attrib["classname"].rpartition(".Test")[2]
        found[tracer] |= {case.attrib["name"].partition("[")[0]} if case.find("failure") is not None else set()
    return found


def test_every_tracer_was_tested(failed: dict[str, set[str]]) -> None:
    assert failed.keys() == EXPECTED.keys()


@pytest.mark.parametrize("tracer", EXPECTED)
def test_a_wrong_tracer_fails_exactly_the_tests_that_name_its_fault(tracer: str, failed: dict[str, set[str]]) -> None:
    assert failed[tracer] == EXPECTED[tracer]
