"""All attempts to get out of Monty, in the jail and without it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator

import pytest

import pml_kit.jail
from pml_kit.jail import Wall
from pml_sandbox_monty import Monty, Settings, workers
from pml_testing.isolation import Attempt, World, attempt_in, children, left_behind, services
from pml_testing.isolation_python import ATTEMPTS

pytestmark = pytest.mark.anyio
LATE_S = 10.0
"""Between a limit and the end of what went over it, at the most, on a machine that is busy [s]."""
SETTINGS = Settings(memory_bytes=64 << 20, frame_bytes=1 << 20, max_calls=200)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture(scope="module")
async def jailed(anyio_backend: str) -> AsyncIterator[Monty]:
    async with Monty(SETTINGS, services()) as made:
        yield made


@pytest.fixture(scope="module")
async def alone(anyio_backend: str) -> AsyncIterator[Monty]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "_launcher", lambda _memory_bytes: None)
        patch.setattr(pml_kit.jail, "missing", lambda: [Wall("files", False, "switched off")])
        async with Monty(SETTINGS, services()) as made:
            yield made


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for processes")
async def test_no_process_is_left_behind(world: World) -> None:
    # Before the others' workers are made, which are started again whenever they are needed.
    world.reset()
    before = children()
    async with Monty(SETTINGS, services()) as made:
        for attempt in ATTEMPTS[:3]:
            await attempt_in(made, attempt, world)
        assert left_behind(before), "a worker stays for the next code"
    assert left_behind(before) == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
async def test_nothing_gets_out(attempt: Attempt, world: World, jailed: Monty) -> None:
    _, escapes, took_s = await attempt_in(jailed, attempt, world)
    assert list(escapes) == []
    assert took_s < attempt.timeout_s + LATE_S


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
async def test_nothing_gets_out_of_monty_alone(attempt: Attempt, world: World, alone: Monty) -> None:
    _, escapes, took_s = await attempt_in(alone, attempt, world)
    assert list(escapes) == []
    assert took_s < attempt.timeout_s + LATE_S
