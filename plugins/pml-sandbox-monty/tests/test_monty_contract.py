"""The contract of executors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pml_hookspecs import CodeRun, Task
from pml_sandbox_monty import Monty, Settings, checks
from pml_testing.executor import NEVER_ENDS, TIMES_OUT, ExecutorContract
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry


def code(source: str) -> CodeRun:
    return CodeRun(id="contract", language="python", source=source)


class TestMonty(ExecutorContract):
    @pytest.fixture
    async def executor(self) -> AsyncIterator[Monty]:
        services = FakeServices(catalog=FakeCatalog([entry(TIMES_OUT), entry(NEVER_ENDS)]))
        async with Monty(Settings(), services) as made:
            # What it keeps ready for later runs is there before the contract looks.
            await made.execute(code("1"), FakeRun())
            yield made

    @pytest.fixture
    def good_task(self) -> Task:
        return code("1 + 1")

    @pytest.fixture
    def ordinary_task(self, good_task: Task) -> Task:
        return good_task

    @pytest.fixture
    def timing_out_task(self) -> Task:
        return CodeRun(id="contract", language="python", source="while True: pass", timeout_s=0.2)

    @pytest.fixture
    def endless_task(self) -> Task:
        return code("await tools.contract.never_ends()")


def test_its_table_of_settings_is_that_of_its_checks_too() -> None:
    # They have one name, and a table that only one of them knows keeps the gateway from starting.
    assert checks.settings_type is Monty.settings_type
