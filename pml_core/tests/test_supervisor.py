from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from pml_core.plugins import supervisor
from pml_core.plugins.supervisor import Supervisor
from pml_kit.errors import OperatorError
from pml_testing.fakes import FakeLog

pytestmark = pytest.mark.anyio


class Thing:
    """Notes in ``trail`` when it is entered and left; does or raises on the way what it is told to."""

    def __init__(self, name, trail, *, entering=None, leaving=None) -> None:
        self.name, self.trail, self.entering, self.leaving = name, trail, entering, leaving

    async def __aenter__(self):
        self.trail.append(f"{self.name} in")
        if isinstance(self.entering, Exception):
            raise self.entering
        return self

    async def __aexit__(self, *exc):
        self.trail.append(f"{self.name} out")
        if isinstance(self.leaving, Exception):
            raise self.leaving
        if self.leaving is not None:
            await self.leaving()


@pytest.fixture
def log():
    return FakeLog()


def made(log, *, strict=False) -> Supervisor:
    return Supervisor(log, strict=strict)


async def hangs():
    await asyncio.Event().wait()


async def test_everything_is_left_in_reverse_order(log):
    trail: list[str] = []
    one = made(log)
    for name in ("store", "tracer", "plugin"):
        assert await one.enter(name, Thing(name, trail), required=False)

    async def noted(what):
        trail.append(what)

    one.on_close(noted, "flush")
    await one.close()
    assert trail == ["store in", "tracer in", "plugin in", "flush", "plugin out", "tracer out", "store out"]
    assert one.health == {"store": "up", "tracer": "up", "plugin": "up"}
    assert log.lines == []


async def test_what_is_no_context_manager_is_up_at_once(log):
    one = made(log)
    assert await one.enter("mode", object(), required=True)
    assert one.health == {"mode": "up"}
    await one.close()


async def test_a_plugin_that_cannot_be_entered_is_quarantined_and_the_others_go_on(log):
    trail: list[str] = []
    one = made(log)
    assert await one.enter("good", Thing("good", trail), required=False)
    assert not await one.enter("bad", Thing("bad", trail, entering=ValueError("no disk")), required=False)
    assert await one.enter("later", Thing("later", trail), required=False)
    assert one.health == {"good": "up", "bad": "quarantined: ValueError: no disk", "later": "up"}
    assert [(level, fields["plugin"]) for level, _, fields in log.lines] == [("warning", "bad")]
    await one.close()
    assert trail == ["good in", "bad in", "later in", "later out", "good out"]


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("no disk"), "bad: no disk"), (ValueError(), "bad: ValueError()")]
)
async def test_a_required_plugin_that_cannot_be_entered_stops_the_start(log, error, text):
    one = made(log)
    with pytest.raises(OperatorError) as caught:
        await one.enter("bad", Thing("bad", [], entering=error), required=True)
    assert caught.value.message == text
    await one.close()


async def test_a_strict_gateway_refuses_to_start_without_a_plugin(log):
    one = made(log, strict=True)
    with pytest.raises(OperatorError) as caught:
        await one.enter("bad", Thing("bad", [], entering=ValueError("no disk")), required=False)
    assert caught.value.message == "plugin 'bad' failed in start: ValueError: no disk"
    assert "unset strict" in caught.value.remedy
    with pytest.raises(OperatorError, match="failed in pml_checks"):
        one.fault("bad", "pml_checks", ValueError())
    await one.close()


async def test_an_exception_on_the_way_out_does_not_stop_the_others(log):
    trail: list[str] = []
    one = made(log)
    await one.enter("a", Thing("a", trail), required=False)
    await one.enter("bad", Thing("bad", trail, leaving=ValueError("x")), required=False)
    await one.enter("c", Thing("c", trail), required=False)
    await one.close()
    assert trail[3:] == ["c out", "bad out", "a out"]
    assert [(level, fields["plugin"]) for level, _, fields in log.lines] == [("exception", "bad")]


async def test_a_plugin_that_hangs_on_the_way_out_is_given_up_after_its_bound(log, monkeypatch):
    monkeypatch.setattr(supervisor, "CLOSING_S", 0.02)
    trail: list[str] = []
    one = made(log)
    await one.enter("a", Thing("a", trail), required=False)
    await one.enter("slow", Thing("slow", trail, leaving=hangs), required=False)
    async with asyncio.timeout(30):
        await one.close()
    assert trail[2:] == ["slow out", "a out"]
    assert [(level, fields["plugin"], fields["limit_s"]) for level, _, fields in log.lines] == [("error", "slow", 0.02)]


async def test_what_is_awaited_on_the_way_out_may_fail_without_stopping_the_others(log):
    async def fails():
        raise ValueError("flush failed")

    trail: list[str] = []
    one = made(log)
    await one.enter("store", Thing("store", trail), required=False)
    one.on_close(fails)
    await one.close()
    assert trail == ["store in", "store out"]
    assert any(level in ("error", "exception") for level, _, _ in log.lines)


async def test_what_is_awaited_on_the_way_out_is_given_up_after_its_bound(log, monkeypatch):
    monkeypatch.setattr(supervisor, "CLOSING_S", 0.02)
    trail: list[str] = []
    one = made(log)
    await one.enter("store", Thing("store", trail), required=False)
    one.on_close(hangs)
    try:
        async with asyncio.timeout(30):
            await one.close()
    except TimeoutError:
        pytest.fail("closing waited for ever")
    assert trail == ["store in", "store out"]


# Background tasks


async def test_a_background_task_that_fails_marks_its_plugin_and_reaches_nobody_else(log):
    async def fails(number):
        raise ValueError(number)

    one = made(log)
    await one.enter("bad", object(), required=False)
    await one.enter("good", object(), required=False)
    one.spawn("bad", fails, (7,), "drain")
    async with asyncio.timeout(30):
        while one.health["bad"] == "up":  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
    assert one.health == {"bad": "background task 'drain' failed: ValueError(7)", "good": "up"}
    ((level, _, fields),) = log.lines
    assert (level, fields["plugin"], fields["task"]) == ("exception", "bad", "drain")
    await one.close()


async def test_background_tasks_are_cancelled_and_waited_for(log):
    ended: list[str] = []
    begun = asyncio.Event()

    async def works():
        begun.set()
        try:
            await hangs()
        finally:
            await asyncio.sleep(0)
            ended.append("tidied")

    one = made(log)
    one.spawn("p", works, (), "work")
    await begun.wait()
    await one.close()
    assert ended == ["tidied"]
    assert log.lines == []


async def test_a_background_task_that_will_not_end_holds_nobody_up(log, monkeypatch):
    monkeypatch.setattr(supervisor, "CLOSING_S", 0.02)
    release, begun = asyncio.Event(), asyncio.Event()

    async def stubborn():
        begun.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            await release.wait()

    one = made(log)
    one.spawn("p", stubborn, (), "work")
    await begun.wait()
    async with asyncio.timeout(30):
        await one.close()
    release.set()
    await asyncio.sleep(0)


async def test_a_plugins_background_tasks_run_until_the_plugin_itself_is_left(log):
    """A store writes in the background; what is left before it, such as a tracer, still delivers to it."""
    working = asyncio.Event()
    alive: list[bool] = []
    running = []

    async def writes():
        running.append(asyncio.current_task())
        working.set()
        await hangs()

    async def delivers():
        alive.append(not running[0].cancelled() and not running[0].cancelling())

    one = made(log)
    await one.enter("store", Thing("store", [], leaving=delivers), required=True)
    one.spawn("store", writes, (), "writer")
    await one.enter("tracer", Thing("tracer", [], leaving=delivers), required=True)
    await working.wait()
    await one.close()
    assert alive == [True, True]


async def test_a_plugin_made_of_a_generator_is_entered_and_left(log):
    trail = []

    @asynccontextmanager
    async def lifespan():
        trail.append("in")
        yield
        trail.append("out")

    one = made(log)
    assert await one.enter("p", lifespan(), required=False)
    await one.close()
    assert trail == ["in", "out"]
