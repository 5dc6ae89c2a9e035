"""What ``[plugins.sqlite]`` may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting
from pml_stores.sql.store import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Settings of the SQLite store."""

    path: str = setting(
        "",
        "File to keep the data in; a leading ~ is the home folder. Empty: pml.db in the folder PML_HOME, or in ~/.pml. "
        "Not on a network drive.",
        project="never",
    )
    synchronous: Literal["FULL", "NORMAL"] = setting(
        "NORMAL",
        "When to wait for the disk. NORMAL: a killed process loses nothing that was written, a power cut may lose the "
        "last writes. FULL: a power cut loses nothing either, and every write costs a wait for the disk.",
    )
    busy_timeout_ms: int = setting(
        2000, "How long one write waits for another process that is writing to the same file [ms].", ge=0, le=60_000
    )
