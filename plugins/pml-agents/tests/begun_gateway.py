"""A gateway in a process of its own, that begins with a chat in the background and says its id: to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agents_kit import chat, gateway, worker

from pml_store_sqlite import SqliteStore


async def main(folder: str) -> None:
    agents = {"w": worker("stubborn", Path(folder) / "pids")}
    tables = {"sqlite": {"path": str(Path(folder) / "pml.db")}}
    async with gateway(agents, plugins={("store", "sqlite"): SqliteStore}, tables=tables) as (_, client):
        told, _ = await chat(client, "w", "never to end", **{"async": True})
        sys.stdout.write(told["execution_id"] + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
