"""The contract of executors, with tasks that Deno knows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pml_hookspecs import CodeRun, Task
from pml_sandbox_deno import Deno, Settings
from pml_testing.executor import NEVER_ENDS, ExecutorContract
from pml_testing.fakes import FakeServices


class TestAlone(ExecutorContract):
    """Not entered: every run starts its own process and leaves nothing."""

    @pytest.fixture
    def executor(self) -> Deno:
        return Deno(Settings(), FakeServices("deno"))

    @pytest.fixture
    def good_task(self) -> Task:
        return CodeRun(id="contract", language="typescript", source="return { a: [1] }")

    @pytest.fixture
    def timing_out_task(self) -> Task:
        return CodeRun(id="contract", language="typescript", source="while (true);", timeout_s=0.2)

    @pytest.fixture
    def endless_task(self) -> Task:
        return CodeRun(id="contract", language="javascript", source=f"await tools.{NEVER_ENDS.replace(':', '.')}()")


class TestWithAPool(TestAlone):
    """Entered: processes are ready."""

    @pytest.fixture
    async def executor(self) -> AsyncIterator[Deno]:
        async with Deno(Settings(spare=0), FakeServices("deno")) as made:
            yield made
