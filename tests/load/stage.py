"""What is measured: real gateways with a server behind each, on a store of their own."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Literal

from gateways import Gateway
from processes import descendants, parent

from pml_testing.postgres import cluster

SERVER = Path(__file__).parents[1] / "bench" / "server.py"
SERVER_COMMAND = [sys.executable, "-I", "-S", str(SERVER), "bench", "4"]
CLIENTS_AT_MOST = 1_000_000
SAID = 3000
"""Of the complaints, the first so many characters."""
CONFIG = """
[gateway]
tools_exposure = "full_proxy"
store = "{store}"

{database}
[plugins.http]
max_sessions = {most}
max_sessions_per_principal = {most}
max_requests_per_principal = {most}
max_client_connections = {most}
max_client_connections_per_address = {most}

[servers.bench]
command = {command}
args = {arguments}
"""
Store = Literal["sqlite", "postgres"]


class Stage:
    """Gateways that run."""

    def __init__(self, gateways: list[Gateway], database: str) -> None:
        """``database`` is the address of PostgreSQL's; empty where each gateway has a file."""
        self.gateways, self._database = gateways, database
        self._logged = [(one, len(one.log.read_text(errors="replace"))) for one in gateways]

    @property
    def urls(self) -> list[str]:
        return [f"{one.url}/mcp" for one in self.gateways]

    @property
    def pids(self) -> list[int]:
        """Of the gateways, without their servers."""
        return [one.process.pid for one in self.gateways if one.process is not None]

    def processes(self) -> dict[str, set[int]]:
        """The processes of each part: the gateways, what they started, and the database's server."""
        gateways = set(self.pids)
        parts = {"gateway": gateways, "server": set().union(*(descendants(pid) for pid in gateways)) - gateways}
        if self._database:
            import psycopg

            with psycopg.connect(self._database) as connection:
                found = connection.execute("SELECT pg_backend_pid()").fetchone()
                assert found is not None
                parts["database"] = descendants(parent(found[0]))
        return parts

    def rows(self) -> int:
        """Executions in the history of all."""
        if self._database:
            import psycopg

            with psycopg.connect(self._database) as connection:
                found = connection.execute("SELECT count(*) FROM pml.execution").fetchone()
            return int(found[0]) if found else 0
        return sum(_rows(Path(one.home)) for one in self.gateways)

    def said(self) -> str:
        """What the gateways complained about since they were ready."""
        words = "".join(one.log.read_text(errors="replace")[begin:] for one, begin in self._logged)
        return "\n".join(line for line in words.splitlines() if "[warning" in line or "[error" in line)[:SAID]


def _rows(home: Path) -> int:
    with closing(sqlite3.connect(f"file:{home / 'pml.db'}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM execution").fetchone()[0])


@contextmanager
def stage(folder: Path, count: int, store: Store) -> Iterator[Stage]:
    """So many gateways, ready; one after the other, because the first makes the tables."""
    with ExitStack() as stack:
        database = stack.enter_context(cluster(durable=True)).database() if store == "postgres" else ""
        said = CONFIG.format(
            store=store,
            database=f'[plugins.postgres]\nurl = "{database}"\n' if database else "",
            most=CLIENTS_AT_MOST,
            command=json.dumps(SERVER_COMMAND[0]),
            arguments=json.dumps(SERVER_COMMAND[1:]),
        )
        gateways = []
        for number in range(count):
            config = folder / f"g{number}.toml"
            config.write_text(said, encoding="utf-8")
            gateway = Gateway(folder, config=config, name=f"g{number}")
            gateways.append(stack.enter_context(gateway.running()))
        yield Stage(gateways, database)
