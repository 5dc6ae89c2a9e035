from __future__ import annotations

import pytest

from pml_executor_dag import Dag
from pml_hookspecs import Status, ToolCall, Workflow
from pml_testing.fakes import FakeRun
from pml_testing.work import counted

pytestmark = pytest.mark.anyio


async def test_scheduling_a_task_takes_as_much_among_two_thousand_as_among_two_hundred():
    each = []
    for count in (200, 2000):
        tasks = Workflow(id="w", tasks=tuple(ToolCall(id=f"t{i}", tool="s:t") for i in range(count)))
        with counted() as work:
            assert (await Dag().execute(tasks, FakeRun())).status is Status.OK
        each.append(work.calls / count)
    assert each[1] < 1.1 * each[0] < 300


async def test_scheduling_a_chain_takes_as_much_for_each_task_however_long_it_is():
    each = []
    for count in (100, 1000):
        depends_on = [()] + [(f"t{i}",) for i in range(count - 1)]
        calls = tuple(ToolCall(id=f"t{i}", tool="s:t", depends_on=n) for i, n in enumerate(depends_on))
        tasks = Workflow(id="w", tasks=calls)
        with counted() as work:
            assert (await Dag().execute(tasks, FakeRun())).status is Status.OK
        each.append(work.calls / count)
    assert each[1] < 1.2 * each[0]
