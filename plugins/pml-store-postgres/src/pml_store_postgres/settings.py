"""What ``[plugins.postgres]`` may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting
from pml_stores.sql.store import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Settings of the PostgreSQL store."""

    url: str = setting(
        "",
        "Address of the database: postgresql://user:password@host:port/database; host1,host2 if it has standbys. "
        "What it leaves out is in libpq's variables and password file. To the server, or a pooler that pools sessions.",
        secret=True,
        project="never",
    )
    schema: str = setting("pml", "Schema that the tables are in; made when it is not there.")
    synchronous: Literal["FULL", "NORMAL"] = setting(
        "FULL",
        "When a write counts as durable. FULL: when the server's disk has it. NORMAL: when the server has it; a crash "
        "of the server may lose the last writes, a crash of the gateway none.",
    )
    busy_timeout_ms: int = setting(
        2000, "How long one write waits for another gateway that is writing to the same schema [ms].", ge=10, le=60_000
    )
    connect_timeout_s: int = setting(5, "How long connecting may take [s].", ge=1, le=60)
