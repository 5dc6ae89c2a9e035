from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pml_hookspecs import CodeRun, Outcome
from pml_sandbox_cpython import CPython, Settings
from pml_testing.fakes import FakeRun
from pml_testing.isolation import WatchedRun, services


@pytest.fixture
async def cpython() -> AsyncIterator[CPython]:
    """With short limits."""
    settings = Settings(timeout_s=10.0, memory_bytes=96 << 20, max_calls=100, frame_bytes=1 << 20, output_bytes=2000)
    async with CPython(settings, services()) as made:
        yield made


@pytest.fixture
def run(cpython: CPython) -> Callable[..., Awaitable[Outcome]]:
    """Runs a source, with the tools ``open:echo`` and ``open:slow``."""

    async def ran(source: str, on: FakeRun | None = None, **more: object) -> Outcome:
        return await cpython.execute(CodeRun(id="task", language="python", source=source, **more), on or WatchedRun())

    return ran
