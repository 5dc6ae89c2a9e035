"""A gateway in a process of its own with a schedule of a tool that leaves a trace of each call in a file.

    python schedules_process.py POSTGRES-URL-OR-SQLITE-FILE TRACES [COUNT]

COUNT: how many runs it begins before it claims one and hangs, so that it can be killed in mid-claim.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from pml_core.services import PluginServices
from pml_schedules import plugin
from pml_testing.gateway import ScriptedServer, running

SCHEDULE = {"every_s": 1, "tool": "traces:leave", "overlap": "allow", "missed": "all", "most_missed": 100}


def store(where: str) -> tuple[str, Any, dict[str, str]]:
    """Name, driver and settings of the store."""
    if where.startswith("postgresql"):
        from pml_store_postgres import PostgresStore

        return "postgres", PostgresStore, {"url": where}
    from pml_store_sqlite import SqliteStore

    return "sqlite", SqliteStore, {"path": where}


def say(word: str) -> None:
    """To the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def hang_after(count: int) -> None:
    """Let so many runs begin, say of the next one that it is claimed, and go no further."""
    left, start = count, PluginServices.start

    async def hung(services: PluginServices, *args: Any, **more: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            return await start(services, *args, **more)
        say("claimed")
        return await asyncio.Event().wait()

    PluginServices.start = hung


async def main(where: str, traces: Path) -> None:
    """Until killed, or its input ends."""

    async def leave(_name: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        with traces.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return {"content": []}

    name, driver, settings = store(where)
    plugins = {("store", name): driver, ("hooks", "schedules"): plugin}
    tables = {name: settings, "schedules": {"look_s": 0.1, "lease_s": 1, "schedules": {"trace": SCHEDULE}}}
    async with running({"traces": ScriptedServer(["leave"], leave)}, plugins=plugins, tables=tables, store=name):
        say("up")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        hang_after(int(sys.argv[3]))
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
