"""What ``[plugins.sqlite]`` may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
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
    flush_interval_ms: int = setting(
        50,
        "How long what is recorded on the request path is collected in memory before it is written [ms]. Writing then "
        "waits for who reads for up to three tenths of what is left of 100 ms.",
        ge=1,
        le=90,
    )
    queue_rows: int = setting(
        100_000,
        "Most executions and documents to hold in memory while the file cannot be written; more are dropped.",
        ge=1,
    )
    busy_timeout_ms: int = setting(
        2000, "How long one write waits for another process that is writing to the same file [ms].", ge=0, le=60_000
    )
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
