"""What ``[plugins.dbos]`` may say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pml_hookspecs import setting

FILE = "durable.db"
LIFE_SIGNS = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""How a connection to a server that is gone is found out [s, s, times, ms]: the system itself takes hours."""
LEAST_BEATS = 3
"""A gateway gets so many to connect anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of durable workflows."""

    database: str = setting(
        "",
        "Where durable workflows are kept: postgresql://user:password@host/name, shared by any number of gateways "
        "(postgresql://user:password@host1,host2/name?target_session_attrs=read-write finds which of two writes), or "
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
        """``postgresql://…`` as both libpq and SQLAlchemy read it, or ``sqlite:///<absolute path>``."""
        return _address(self.database) if self._is_postgres else f"sqlite:///{self._path()}"

    @property
    def file(self) -> Path | None:
        """The SQLite file; None on PostgreSQL."""
        return None if self._is_postgres else self._path()

    @property
    def _is_postgres(self) -> bool:
        return self.database.startswith(("postgresql://", "postgres://"))

    def _path(self) -> Path:
        given = self.database.removeprefix("sqlite:///")
        home = Path(os.environ.get("PML_HOME") or Path.home() / ".pml")
        return Path(given).expanduser().absolute() if given else home / FILE


def _address(given: str) -> str:
    """With several hosts in the query, as SQLAlchemy knows them nowhere else."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts: dict[str, Any] = {**LIFE_SIGNS, **conninfo_to_dict(given)}
    except psycopg.Error:  # whoever connects says why
        return "postgresql://" + given.partition("://")[2]
    user, password, name = (quote(str(parts.pop(key, "")), safe="") for key in ("user", "password", "dbname"))
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    if not set(str(parts.get("host", ","))) & set(",:/"):
        port = parts.pop("port", "")
        login += f"{parts.pop('host')}{port and ':'}{port}"
    return f"postgresql://{login}/{name}?{urlencode(parts, quote_via=quote)}"
