"""``[plugins.dry_run]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from pml_hookspecs import setting

Level: TypeAlias = Literal["strict", "warn", "loose"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a rehearsal makes of what it does not know, and what of real calls is kept for rehearsals."""

    level: Level = setting(
        "warn",
        "What happens where nothing tells what a task would return: strict, it fails; warn, a placeholder that warns; "
        "loose, a placeholder.",
    )
    record: bool = setting(default=True, description="Keep the answers of real calls, for rehearsals and replays.")
    record_tools: tuple[str, ...] = setting(("*",), "Tools whose answers are kept: patterns such as files:*.")
    never_record: tuple[str, ...] = setting((), "Tools whose answers are never kept, even if record_tools says so.")
    share: bool = setting(
        default=False, description="Answer rehearsals of one caller with recordings of another's calls."
    )
    max_bytes: int = setting(262_144, "Longest answer that is kept, and longest arguments [bytes].", ge=256)
    max_per_tool: int = setting(50, "Recordings kept of one tool and caller; the oldest go first.", ge=1, le=1000)
    keep_days: float = setting(30.0, "How long a recording is kept [days].", ge=0.001)
    per_second: float = setting(
        1.0, "Calls of one tool that are recorded each second, once there were max_per_tool at any pace.", ge=0
    )
    cpu_share: float = setting(
        0.02,
        "Most of the gateway's processor time that recording takes, once there were max_per_tool of a tool; 1: any.",
        ge=0.001,
        le=1,
    )
