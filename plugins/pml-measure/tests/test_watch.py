from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from pml_hookspecs import InvalidArguments, replace
from pml_kit.offers import View
from pml_measure.counting import counter
from pml_measure.watch import Feed, watch

NOW = datetime.now(UTC).replace(microsecond=0)
pytestmark = pytest.mark.anyio


@asynccontextmanager
async def watching(arguments: Any, services: Any, console: Any = None) -> AsyncIterator[None]:
    task = asyncio.ensure_future(watch(arguments, services, console))
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - the screen tells nobody
            await asyncio.sleep(0.02)


async def test_the_screen_shows_contexts_modes_and_what_just_happened(
    services: Any, history: Any, arguments: Any, views: Any
) -> None:
    views.shown = [View("default", "chosen"), View("ops", "everything")]
    history.ran("files:read_file", 2, mode="hybrid", endpoint="default", response={"text": "word " * 30}, agent="ada")
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=140, height=40)
    async with watching(arguments(json=False, watch=True), services, console):
        await until(lambda: "files:read_file" in screen.getvalue())
        assert "mail:send_message" not in screen.getvalue()
        for part in ("In the context", "default", "ops", "hybrid", "ada", "Changes of mode: 0 towards"):
            assert part in screen.getvalue()
        history.ran("mail:send_message", 1, mode="meta_only", endpoint="default", agent="[red]evil\x1b[31m")
        await until(lambda: "mail:send_message" in screen.getvalue())
        assert "[red]evil\\x1b[31m" in screen.getvalue()
        await until(lambda: "Changes of mode: 1 towards" in screen.getvalue())


async def test_an_execution_that_ends_is_seen_to_end(services: Any, history: Any, arguments: Any, capsys: Any) -> None:
    record = history.ran("files:read_file", 5, mode="hybrid", endpoint="default", status="running")
    lines: list[Any] = []

    def printed(calls: int, failed: int) -> bool:
        lines.extend(json.loads(line) for line in capsys.readouterr().out.splitlines())
        return bool(lines) and (lines[-1]["total"]["calls"], lines[-1]["total"]["failed"]) == (calls, failed)

    async with watching(arguments(watch=True), services):
        await until(lambda: printed(1, 0))
        history.records[:] = [replace(record, status="error")]
        await until(lambda: printed(1, 1))
    (now,) = lines[-1]["now"]
    assert now.pop("list_tokens") > 0
    assert now == {
        "endpoint": "default",
        "mode": "chosen",
        "tools": 2,
        "last_hour": {"calls": 1, "searches": 0, "answer_tokens": 0},
    }


async def test_what_is_older_than_the_days_is_forgotten(services: Any, history: Any, monkeypatch: Any) -> None:
    class Later(datetime):
        hours = 0

        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return NOW.astimezone(tz) + timedelta(hours=cls.hours)

    monkeypatch.setattr("pml_measure.watch.datetime", Later)
    feed = Feed(services, 1, counter("estimate"))
    for Later.hours in range(72):
        record = history.ran("files:read_file", -60 * Later.hours)
        await feed.refresh()
        feed.tokens_of(record)
    assert len(feed._records) in (24, 25)  # the borders may be a second apart
    assert feed._tokens.keys() == feed._records.keys()


async def test_what_cannot_be_watched_is_refused(services: Any, arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match=r"--interval 0: give 0\.2 or more"):
        await watch(arguments(interval=0), services)
    with pytest.raises(InvalidArguments, match="no terminal; add --json"):
        await watch(arguments(json=False), services, Console(file=io.StringIO(), force_terminal=False))
