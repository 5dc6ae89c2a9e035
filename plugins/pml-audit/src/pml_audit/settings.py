"""``[plugins.audit]``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pml_hookspecs import setting

QUERIES = (
    "pml:list_recent_executions",
    "pml:get_execution_result",
    "pml:get_agent_activity_summary",
    "pml:search_executions",
)
HIDING = ("pml:chat_with_agent", "pml:cancel_execution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the audit is kept, and what is in it besides denials."""

    folder: str = setting(
        "",
        "Folder of the audit; a leading ~ is the home folder. Empty: audit in the folder PML_HOME, or in ~/.pml. "
        "Several gateways may share it; not on a network drive.",
        project="never",
    )
    fsync: Literal["always", "interval", "never"] = setting(
        "always",
        "When to wait for the disk: with all rows written together; each second; or never. A killed gateway loses "
        "nothing that was written with any of them, a power cut only with the others than the first.",
        project="never",
    )
    wait_s: float = setting(
        1.0,
        "Longest that an answer waits until its row is written; 0: not at all [s].",
        ge=0,
        le=60,
    )
    file_bytes: int = setting(16 * 1024 * 1024, "Size at which a new file is begun [bytes].", ge=4096)
    queries: tuple[str, ...] = setting(
        QUERIES, "Tools that tell of executions, by pattern; each call makes a row.", project="never"
    )
    hiding: tuple[str, ...] = setting(
        HIDING,
        "Tools that answer alike what is not there and what the caller may not have; each call that is answered so "
        "makes a row.",
        project="never",
    )
    config_files: tuple[str, ...] = setting(
        (),
        "Files whose changes make a row, besides PML's own in the folder PML_HOME and the working directory "
        "(configuration, pml.lock, trusted.json).",
    )
    syslog: str = setting(
        "",
        "Daemon that gets each row as RFC 5424: 'udp://host:514', 'tcp://host:601', 'tls://host:6514' or "
        "'unix:///dev/log'. Empty: none.",
        project="never",
    )
    syslog_ca: str = setting(
        "", "File of certificates that vouch for the daemon; empty: the system's.", project="never"
    )
    otlp: bool = setting(
        False, "Whether each row goes to the collector of [plugins.otel] (pml-tracer-otel), as a log.", project="never"
    )
    poll_s: float = setting(
        2.0, "How often files, approvals and what happened to keys are looked at [s].", ge=0.01, le=3600
    )


def folder_of(settings: Settings) -> Path:
    """Where the audit is."""
    return Path(settings.folder).expanduser() if settings.folder else home() / "audit"


def home() -> Path:
    """The user's PML folder."""
    return Path(os.environ.get("PML_HOME") or Path.home() / ".pml")
