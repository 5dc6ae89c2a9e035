"""Turns: nobody waits for all that somebody else has asked for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from pml_sandbox.fair_slots import FairSlots

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def steps(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Worked:
    """Pieces of work that hold a turn until they are let go, in the order in which they got it."""

    def __init__(self, turns: FairSlots) -> None:
        self.turns, self.begun, self.ends = turns, [], {}
        self.tasks = set()

    def ask(self, principal: str, end_s: float | None = None) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._work(principal, end_s))
        self.tasks.add(task)
        return task

    async def _work(self, principal: str, end_s: float | None) -> None:
        async with self.turns.turn(principal, end_s):
            end = asyncio.Event()
            self.begun.append(principal)
            self.ends.setdefault(principal, []).append(end)
            await end.wait()

    def end(self, principal: str) -> None:
        self.ends[principal].pop(0).set()

    async def all(self) -> None:
        while any(not task.done() for task in self.tasks):
            for ends in self.ends.values():
                while ends:
                    ends.pop().set()
            await steps()


async def test_turns_go_round_among_those_who_wait() -> None:
    worked = Worked(FairSlots(2))
    for _ in range(200):
        worked.ask("mallory")
    await steps()
    assert worked.begun == ["mallory"] * 2
    for _ in range(3):
        worked.ask("alice")
    worked.ask("bob")
    await steps()
    assert worked.begun[2:] == ["alice"], "one place beyond, for whoever has none"
    worked.end("mallory")
    await steps()
    assert worked.begun[3:] == ["bob"]
    worked.end("bob")
    await steps()
    assert worked.begun[4:] == [], "three are under way, which is one more than places"
    worked.end("mallory")
    await steps()
    assert worked.begun[4:] == ["mallory"], "of those with fewest, who has waited longest"
    worked.end("alice")
    worked.end("mallory")
    await steps()
    assert sorted(worked.begun[5:]) == ["alice", "mallory"]
    await worked.all()
    assert len(worked.begun) == 204


async def test_who_gives_up_takes_no_place() -> None:
    turns = FairSlots(1)
    worked = Worked(turns)
    worked.ask("a")
    await steps()
    late = worked.ask("a", asyncio.get_running_loop().time() + 0.01)
    with pytest.raises(TimeoutError):
        await late
    given_up, granted = worked.ask("a"), worked.ask("a")
    last = worked.ask("a")
    await steps()
    worked.end("a")
    given_up.cancel()  # while it is passed over
    await steps()
    assert worked.begun == ["a", "a"]
    worked.end("a")
    await asyncio.sleep(0)
    last.cancel()  # while it is being given a place, or just has it
    await steps()
    assert granted.done()
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(5):
            await stack.enter_async_context(turns.turn("a"))
