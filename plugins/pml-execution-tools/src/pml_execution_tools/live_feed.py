"""``pml executions tail``: executions as they begin and end, until interrupted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, replace
from pml_kit.terminal import printable

from .records import EVERYTHING, PUBLIC, brief, listed
from .screen import EXECUTION, json_line, say

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionQuery, ExecutionRecord, Executions

LATE = timedelta(minutes=10)
"""Tool calls are recorded when they end: looks go back so far before the last one."""
MOST_PAGES = 10
"""Pages that one poll reads at most."""
OPEN = PUBLIC["pending"] | PUBLIC["running"]


class Feed:
    """Executions that are new or have changed since the last poll."""

    def __init__(self, executions: Executions, query: ExecutionQuery) -> None:
        """``query`` says which; in whatever state, as those that are under way end some time."""
        self._executions = executions
        self._query = replace(query, statuses=None)
        self._statuses = query.statuses
        self._seen: dict[str, tuple[datetime, str]] = {}

    async def first(self, count: int) -> list[ExecutionRecord]:
        """The newest ``count``, oldest first; everything that is there by now is taken as seen."""
        newest = await self._look(None)
        shown = [record for record in newest if self._wanted(record)]
        return shown[len(shown) - count :] if count else []

    async def next(self) -> list[ExecutionRecord]:
        """What has begun or ended since the last look, oldest first."""
        now = datetime.now(UTC)
        looked = await self._look(now - LATE)
        for id, (started_at, status) in list(self._seen.items()):
            if started_at >= now - LATE:
                continue
            record = await self._executions.get(ExecutionId(id), EVERYTHING) if status in OPEN else None
            if record is None:
                del self._seen[id]
            elif record.status != status:
                self._seen[id] = (started_at, record.status)
                looked.append(record)
        return [record for record in sorted(looked, key=_age) if self._wanted(record)]

    async def _look(self, since: datetime | None) -> list[ExecutionRecord]:
        """Those that are not known as they are now, oldest first."""
        changed: list[ExecutionRecord] = []
        query = replace(self._query, since=since or self._query.since, limit=100)
        for _ in range(MOST_PAGES):
            page = await self._executions.find(query)
            for record in page.items:
                if self._seen.get(record.id, (None, None))[1] != record.status:
                    self._seen[record.id] = (record.started_at, record.status)
                    changed.append(record)
            if page.cursor is None:
                break
            query = replace(query, cursor=page.cursor)
        return sorted(changed, key=_age)

    def _wanted(self, record: ExecutionRecord) -> bool:
        return self._statuses is None or record.status in self._statuses


def _age(record: ExecutionRecord) -> Any:
    return record.started_at, record.id


async def follow(feed: Feed, *, first: int, interval_s: float, as_json: bool) -> None:
    """Say it line by line. Never returns."""
    for record in await feed.first(first):
        _say(record, as_json=as_json)
    while True:
        await asyncio.sleep(interval_s)
        for record in await feed.next():
            _say(record, as_json=as_json)


def _say(record: ExecutionRecord, *, as_json: bool) -> None:
    shown = listed(record)
    if as_json:
        say(json_line(shown))
        return
    text = {name: text_of(shown) for name, text_of in EXECUTION.items()}
    how = f"{text['took']}, {text['cost']}" if shown["completed_at"] is not None else ""
    error = "" if record.failure is None else f": {brief(record.failure.message)}"
    line = f"{text['started']}  {text['status']:7}  {text['agent']}  {text['message']}  [{text['id']}] {how}{error}"
    say(printable(line.rstrip()))
