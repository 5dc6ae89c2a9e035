"""``[plugins.tool_notes]``."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is learned of tools, and how much of it is shown."""

    learn: bool = setting(True, "Show of tools what their callers' own calls taught; false: nothing is read or kept.")
    tokens: int = setting(60, "Most that is shown of one tool [tokens].", ge=10, le=400)
    keep_days: int = setting(30, "How long something is known of a tool that is not called any more [days].", ge=1)
