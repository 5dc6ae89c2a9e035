"""When a schedule is due."""

from __future__ import annotations

import hashlib
import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from .cron import moments

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
"""No date is later."""
MILLISECOND = timedelta(milliseconds=1)
FIRST_WINDOW = timedelta(minutes=2)
"""How far back due times are looked for at first; each further look goes four times as far."""
WIDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The due times of one schedule: a function of what is in it, so that all gateways agree. All in UTC."""

    name: str
    """Name of the schedule: gives its due times their own jitter."""
    cron: str = ""
    time_zone: str = "UTC"
    every_s: float = 0.0
    """Without :attr:`cron` [s]."""
    start: datetime | None = None
    """Nothing is due before; intervals count from there, else from 1970-01-01T00:00Z."""
    until: datetime | None = None
    """Nothing is due later."""
    jitter_s: float = 0.0
    """Each due time is later by some part of this [s]."""

    def next(self, after: datetime) -> datetime | None:
        """The first due time after ``after``; None when there are no more."""
        return next(self.upcoming(after), None)

    def upcoming(self, after: datetime) -> Iterator[datetime]:
        """Due times after ``after``, in order."""
        early = after - self._most_jitter
        jittered: list[datetime] = []
        for moment in self._moments(early):
            # The moments that follow are later, and jitter only adds: what is due up to this moment is in order now.
            while jittered and jittered[0] <= moment:
                yield heapq.heappop(jittered)
            due = _later(moment, self._jitter(moment))
            if due > after:
                heapq.heappush(jittered, due)
        while jittered:
            yield heapq.heappop(jittered)

    def latest(self, after: datetime, now: datetime, most: int) -> list[datetime]:
        """The last ``most`` due times after ``after`` and up to ``now``, in order.

        Takes no longer for a span of years than for one of hours.
        """
        if self.until is not None:
            now = min(now, _later(self.until, self._most_jitter))
        if now <= after:
            return []
        window = FIRST_WINDOW
        while True:
            begin = max(after, now - window)
            found: deque[datetime] = deque(maxlen=most)
            for due in self.upcoming(begin):
                if due > now:
                    break
                found.append(due)
            if begin == after or len(found) == most:
                return list(found)
            window = min(window * WIDER, now - after)

    def _moments(self, after: datetime) -> Iterator[datetime]:
        """Without jitter."""
        if self.start is not None:
            after = max(after, self.start - MILLISECOND)
        for moment in moments(self.cron, self.time_zone, after) if self.cron else self._intervals(after):
            if self.until is not None and moment > self.until:
                return
            yield moment

    def _intervals(self, after: datetime) -> Iterator[datetime]:
        anchor, step = self.start or EPOCH, timedelta(seconds=self.every_s)
        number = (after - anchor) // step + 1
        while True:
            try:
                moment = anchor + number * step
            except OverflowError:
                return
            yield moment
            number += 1

    @property
    def _most_jitter(self) -> timedelta:
        return timedelta(seconds=self.jitter_s)

    def _jitter(self, moment: datetime) -> timedelta:
        if not self.jitter_s:
            return timedelta(0)
        digest = hashlib.sha256(f"{self.name}\n{moment.isoformat()}".encode()).digest()
        part = int.from_bytes(digest[:8]) / 2**64
        return round(part * self.jitter_s * 1000) * MILLISECOND


def _later(moment: datetime, by: timedelta) -> datetime:
    """``moment`` put off, or the last date that there is."""
    return LAST if by > LAST - moment else moment + by
