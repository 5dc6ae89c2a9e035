"""All attempts to get out, in all of Python: only the jail is in the way."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from pml_sandbox_cpython import CPython, Settings
from pml_testing.isolation import Attempt, World, attempt_in, children, left_behind, services
from pml_testing.isolation_python import ATTEMPTS

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")]
LATE_S = 10.0
"""Between a limit and the end of what went over it, at the most, on a machine that is busy [s]."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture(scope="module")
async def executor(anyio_backend: str) -> AsyncIterator[CPython]:
    settings = Settings(memory_bytes=96 << 20, frame_bytes=1 << 20, max_calls=200)
    async with CPython(settings, services()) as made:
        yield made


async def test_no_process_is_left_behind(world: World) -> None:
    # Before the executor of the others is made, which starts processes whenever it likes.
    world.reset()
    before = children()
    async with CPython(Settings(), services()) as made:
        for attempt in ATTEMPTS[:3]:
            await attempt_in(made, attempt, world)
    assert left_behind(before) == frozenset()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
async def test_nothing_gets_out(attempt: Attempt, world: World, executor: CPython) -> None:
    _, escapes, took_s = await attempt_in(executor, attempt, world)
    assert list(escapes) == []
    assert took_s < attempt.timeout_s + LATE_S
