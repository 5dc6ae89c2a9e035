"""What ``[plugins.dbos]`` may say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pml_hookspecs import setting

FILE = "durable.db"
LEAST_BEATS = 3
"""A gateway gets so many to connect anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of durable workflows."""

    database: str = setting(
        "",
        "Where durable workflows are kept: postgresql://user:password@host/name, shared by any number of gateways, or "
        "the path of an SQLite file. Empty: durable.db in the folder PML_HOME, or in ~/.pml. Not on a network drive.",
        secret=True,
    )
    heartbeat_s: float = setting(5.0, "How often this gateway looks for work to take up [s].", ge=0.05, le=60)
    lease_s: float = setting(
        0.0,
        "On PostgreSQL: how long a gateway may be without its connection before its workflows are taken over [s]; at "
        "least 3 heartbeats. 0: 3 heartbeats. On SQLite one that is gone is known at once.",
        ge=0,
        le=3600,
    )
    drain_s: float = setting(
        3.0, "When the gateway ends: how long tasks under way get to end; no new ones are started [s].", ge=0, le=4
    )
    keep_days: int = setting(30, "How long workflows that have ended are kept [days]; 0: for ever.", ge=0, le=3650)

    @property
    def lease(self) -> float:
        """After which a gateway without a connection is taken for dead [s]."""
        return max(self.lease_s, LEAST_BEATS * self.heartbeat_s)

    @property
    def url(self) -> str:
        """``postgresql://…`` or ``sqlite:///<absolute path>``."""
        if self.database.startswith(("postgresql://", "postgres://")):
            return "postgresql://" + self.database.partition("://")[2]
        return f"sqlite:///{self._path()}"

    @property
    def file(self) -> Path | None:
        """The SQLite file; None on PostgreSQL."""
        return None if self.url.startswith("postgresql://") else self._path()

    def _path(self) -> Path:
        given = self.database.removeprefix("sqlite:///")
        home = Path(os.environ.get("PML_HOME") or Path.home() / ".pml")
        return Path(given).expanduser().absolute() if given else home / FILE
