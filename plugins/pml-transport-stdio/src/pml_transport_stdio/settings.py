"""Settings of the stdio transport, shared by its two directions."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.stdio]``."""

    close_grace_s: float = setting(
        0.7, "Time a server gets to stop after its input is closed, and again after SIGTERM [s].", ge=0, le=2
    )
    write_buffer_bytes: int = setting(
        64 * MIB, "Data waiting for a peer that does not read, above which requests are refused [bytes].", ge=MIB
    )
    notify_buffer_bytes: int = setting(
        256 * KIB,
        "Data waiting for a peer that does not read, above which notifications are held back and merged [bytes].",
        ge=64 * KIB,
    )
    max_requests: int = setting(
        16_384, "Requests of one peer being answered at a time, above which more are refused.", ge=1
    )
    max_message_bytes: int = setting(
        256 * MIB, "Longest message taken from a peer; a longer one is skipped [bytes].", ge=MIB
    )
