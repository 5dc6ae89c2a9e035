"""What differs between two configurations, and when their files change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pml_clients.configuration.files import State, state_of
from pml_kit.errors import OperatorError

from .config import Config

POLL_S = 1.0
"""How often the files are looked at [s]."""
SETTLED_S = 0.2
"""A file that was not written to for so long is complete [s]."""


async def file_changes(files: Sequence[Path], known: State, asked: asyncio.Event) -> AsyncIterator[Sequence[str]]:
    """Once after each change of ``files`` since they were as ``known``, and whenever ``asked`` is set.

    Yields:
        Those that are gone; none where all that were there can be read.
    """
    while True:
        if not asked.is_set():
            await _within(POLL_S, asked)
        if not asked.is_set() and state_of(files) == known:
            continue
        asked.clear()
        before, known = known, await _settled(files)
        yield [str(path) for path, state in before.items() if state is not None and known[path] is None]


def changed_tables(old: Config, new: Config) -> set[str]:
    """Names of plugins whose tables differ."""
    return {name for name in {*old.tables, *new.tables} if old.tables.get(name, {}) != new.tables.get(name, {})}


def changes(old: Config, new: Config) -> Iterator[str]:
    """Paths of what differs."""
    before, now = asdict(old.gateway), asdict(new.gateway)
    yield from (f"gateway.{name}" for name in before if before[name] != now[name])
    sections: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "servers": (old.servers, new.servers),
        "endpoints": (old.endpoints, new.endpoints),
        "plugins": (old.tables, new.tables),
    }
    for section, (earlier, later) in sections.items():
        yield from (f"{section}.{n}" for n in sorted({*earlier, *later}) if earlier.get(n) != later.get(n))


def refuse_lost(old: Config, new: Config) -> None:
    """Keep what is in force when a project's file in it is not what was trusted any more.

    Raises:
        OperatorError: It is not.
    """
    used = {source.label for source in old.sources if source.is_projects}
    if lost := [line for path, line in new.ignored.items() if str(path) in used]:
        raise OperatorError("\n".join(lost))


async def _within(limit_s: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        return


async def _settled(files: Sequence[Path]) -> State:
    """The state of files that nobody is writing to any more."""
    now = state_of(files)
    while True:
        await asyncio.sleep(SETTLED_S)
        before, now = now, state_of(files)
        if before == now:
            return now
