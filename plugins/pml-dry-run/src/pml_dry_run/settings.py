"""``[plugins.dry_run]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from pml_hookspecs import ToolCall, replace, setting

if TYPE_CHECKING:
    from pml_hookspecs import Task

Level: TypeAlias = Literal["strict", "warn", "loose"]
LEVELS: tuple[Level, ...] = get_args(Level)
META_LEVEL = "pml/dry_run_level"
"""Member of a call's ``_meta``: how a miss is treated in it, whatever the settings say."""


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


def without_level(task: ToolCall) -> ToolCall:
    """The call without what is between the client and the rehearsal: servers are not told of it."""
    if asked_level(task) is None:
        return task
    meta = {name: member for name, member in task.extra["_meta"].items() if name != META_LEVEL}
    others = {name: member for name, member in task.extra.items() if name != "_meta"}
    return replace(task, extra={**others, "_meta": meta} if meta else others)


def asked_level(task: Task) -> object:
    """What a call itself says of how a miss is treated; None for nothing."""
    meta = task.extra.get("_meta") if isinstance(task, ToolCall) and task.extra else None
    return meta.get(META_LEVEL) if isinstance(meta, Mapping) else None
