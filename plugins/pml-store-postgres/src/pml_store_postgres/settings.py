"""What ``[plugins.postgres]`` may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the PostgreSQL store."""

    url: str = setting(
        "",
        "Address of the database: postgresql://user:password@host:port/database. What it leaves out is taken from "
        "libpq's environment variables and password file. Straight to the server or to a pooler that pools sessions.",
        secret=True,
        project="never",
    )
    schema: str = setting("pml", "Schema that the tables are in; made when it is not there.")
    synchronous: Literal["FULL", "NORMAL"] = setting(
        "FULL",
        "When a write counts as durable. FULL: when the server's disk has it. NORMAL: when the server has it; a crash "
        "of the server may lose the last writes, a crash of the gateway none.",
    )
    flush_interval_ms: int = setting(
        50, "Longest that what is recorded on the request path stays in memory before it is written [ms].", ge=1, le=90
    )
    queue_rows: int = setting(
        100_000,
        "Most executions and documents to hold in memory while the database cannot be written; more are dropped.",
        ge=1,
    )
    busy_timeout_ms: int = setting(
        2000, "How long one write waits for another gateway that is writing to the same schema [ms].", ge=10, le=60_000
    )
    connect_timeout_s: int = setting(5, "How long connecting may take [s].", ge=1, le=60)
    keep_days: int = setting(
        90,
        "Executions that started longer ago are deleted, with what ran inside and their transcripts [days]; 0: never. "
        "What has not ended stays.",
        ge=0,
        le=36_500,
        project="never",
    )
    keep_bytes: int = setting(
        10 * 1024**3,
        "The oldest executions are deleted until what is stored is no larger [bytes]; 0: as large as it gets.",
        ge=0,
        project="never",
    )
