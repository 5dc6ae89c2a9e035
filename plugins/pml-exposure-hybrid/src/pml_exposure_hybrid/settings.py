"""The table ``[plugins.hybrid]``, shared by the mode and by the filter that enforces the blacklist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.hybrid]``. Tools are named ``server:tool``, or as clients see them: ``server__tool``."""

    expose_meta_tools: bool = setting(True, "List the meta-tools, first.", project="set")
    expose_underlying_tools: bool = setting(True, "List tools of servers: whitelisted and fitting ones.", project="set")
    apply_semantic_filter: bool = setting(
        True,
        "List the tools that fit the intent, and none but whitelisted ones without one; false: the first ones.",
        project="set",
    )
    max_underlying_tools: int = setting(
        50, "Most tools of servers to list [tools]; whitelisted ones come on top.", ge=0, project="set"
    )
    semantic_threshold: float = setting(
        0.6, "Least relevance of a tool to the intent for it to be listed.", ge=0, le=1, project="set"
    )
    intents: list[str] = setting(
        list,
        "What is done here, such as ['files', 'git', 'issues']: searched one by one where a client says no intent.",
        project="set",
    )
    fallback: Literal["nothing", "most_used"] = setting(
        "nothing",
        "What is listed besides where there is no intent at all: nothing, or what the caller used most in 30 days, as "
        "the history knows when the gateway is asked first.",
        project="set",
    )
    whitelisted_tools: list[str] = setting(
        list,
        "Tools, or patterns such as 'git:*', listed in any case, in this order.",
        project="set",
    )
    blacklisted_tools: list[str] = setting(
        list,
        "Tools, or patterns such as 'server:*', that nobody sees or calls, whatever the mode; beats the whitelist.",
        project="add",
    )
