from __future__ import annotations

import time

import pytest

from pml_executor_dag import Dag
from pml_hookspecs import Status, ToolCall, Workflow
from pml_testing.fakes import FakeRun

pytestmark = pytest.mark.anyio


async def test_a_thousand_tasks_are_scheduled_in_less_than_100_ms():
    tasks = Workflow(id="w", tasks=tuple(ToolCall(id=f"t{i}", tool="s:t") for i in range(1000)))
    took = []
    for _ in range(5):
        started = time.process_time()
        assert (await Dag().execute(tasks, FakeRun())).status is Status.OK
        took.append(time.process_time() - started)
    assert min(took) < 0.1
