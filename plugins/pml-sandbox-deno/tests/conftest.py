from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from pml_hookspecs import CodeRun, Outcome
from pml_sandbox_deno import Deno, Settings
from pml_testing.fakes import FakeRun, FakeServices

Run = Callable[..., "object"]


@pytest.fixture
async def deno() -> AsyncIterator[Deno]:
    """With a limit of time that only code without end reaches."""
    async with Deno(Settings(spare=1, timeout_s=60.0), FakeServices("deno")) as made:
        yield made


@pytest.fixture
def run(deno: Deno) -> Callable[..., object]:
    """Runs a source."""

    async def ran(source: str, on: FakeRun | None = None, *, language: str = "typescript", **more: object) -> Outcome:
        task = CodeRun(id="task", language=language, source=source, **more)
        return await deno.execute(task, FakeRun() if on is None else on)

    return ran
