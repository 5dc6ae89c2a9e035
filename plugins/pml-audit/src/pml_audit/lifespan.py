"""The life of the audit: from the gateway's start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from .files import Files
from .heads import Heads, has_row
from .rows import START
from .verify import Snapshot
from .watch import ChangeWatch
from .wrapper import DAY_S

if TYPE_CHECKING:
    from pathlib import Path

    from pml_hookspecs import Services

    from .access import Access
    from .export.exporter import Exporter
    from .recorder import Recorder
    from .settings import Settings
    from .wrapper import Audit

ANEW = "the row that the store knows is another one here: all was written anew"
HEAD_S = 1.0
"""How often it is kept elsewhere how far the rows go [s]."""


@asynccontextmanager
async def auditing(
    services: Services, settings: Settings, recorder: Recorder, audit: Audit, access: Access
) -> AsyncIterator[None]:
    """Record the start and the end, and what changes in between."""
    heads, watch = Heads(services, recorder.folder), ChangeWatch(services, settings, recorder)
    await _begin(services, recorder, audit, heads)
    servers = [status.name for status in services.catalog.servers()]
    recorder.record("gateway.started", servers=servers)
    # From the first row on, so that a trail that the store does not know is none that a gateway has just begun.
    await _keep_once(services, recorder, heads)
    services.spawn(_keep_head, services, recorder, heads, name="head")
    exporter = _exporter(services, settings, recorder)
    services.spawn(_watch, services, settings, watch, audit, access, name="watch")
    try:
        yield
    finally:
        with suppress(Exception):  # the store may be out of order, and the rows are written all the same
            await watch.look()
        access.flush(all=True)
        recorder.record("gateway.stopped", servers=servers)
        await recorder.close()
        await heads.keep(recorder.trail.tip)
        if exporter is not None:
            await asyncio.to_thread(exporter.close)


def _exporter(services: Services, settings: Settings, recorder: Recorder) -> Exporter | None:
    if not settings.syslog and not settings.otlp:
        return None
    from .export.exporter import Exporter

    exporter = Exporter(services, settings, recorder.folder)
    exporter.start()
    return exporter


async def _begin(services: Services, recorder: Recorder, audit: Audit, heads: Heads) -> None:
    """Take up where the last gateway left off."""
    try:
        await _compare(recorder, heads)
    except Exception as exc:
        services.log.warning("it is not known how far the audit goes", problem=repr(exc))
    try:
        for use in await asyncio.to_thread(_used_today, recorder.folder):
            audit.seen(*use)
    except OSError as exc:
        services.log.warning("the audit cannot be read", problem=str(exc))


async def _compare(recorder: Recorder, heads: Heads) -> None:
    """Say so in a row where the trail is not the one that the store knows, or not as far as that goes."""
    known = await heads.known()
    end = await asyncio.to_thread(recorder.trail.files.read_head)
    if known.problem:
        recorder.record("audit.broken", why=known.problem)
    elif known.is_first and end is not None:
        recorder.record("audit.new_store", why="the store knew of no audit")
    elif end is not None and START.n < known.tip.n <= end.tip.n:
        if not await asyncio.to_thread(has_row, recorder.folder, known.tip):
            recorder.record("audit.broken", why=ANEW, expected=known.tip._asdict())
    else:
        recorder.trail.tip = max(recorder.trail.tip, known.tip)


def _used_today(folder: Path) -> list[tuple[int, str, str, str]]:
    """Uses of keys that have their row."""
    used = []
    with Snapshot(Files(folder)) as snapshot:
        of_uses = (one for one in snapshot.lines(newest_only=True) if b'"kind":"key.used"' in one[2])
        for row in snapshot.rows(of_uses):
            with suppress(KeyError, ValueError):
                day = int(datetime.fromisoformat(row["at"]).timestamp() // DAY_S)
                used.append((day, row["principal"], row.get("endpoint", ""), row.get("key", "")))
    return used


async def _keep_head(services: Services, recorder: Recorder, heads: Heads) -> None:
    while True:
        await asyncio.sleep(HEAD_S)
        await _keep_once(services, recorder, heads)


async def _keep_once(services: Services, recorder: Recorder, heads: Heads) -> None:
    await asyncio.wrap_future(recorder.sync())
    try:
        if recorder.trail.tip != START:
            await heads.keep(recorder.trail.tip)
    except Exception as exc:
        services.log.warning("how far the audit goes cannot be kept in the store", problem=repr(exc))


async def _watch(services: Services, settings: Settings, watch: ChangeWatch, audit: Audit, access: Access) -> None:
    failing = False
    while True:
        access.flush()
        try:
            await watch.look()
            failing = False
        except Exception as exc:
            if not failing:
                services.log.warning("changes cannot be looked for", problem=repr(exc))
            failing = True
        with suppress(TimeoutError):
            async with asyncio.timeout(settings.poll_s):
                await audit.answered.wait()
        audit.answered.clear()
