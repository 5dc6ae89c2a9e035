"""The table ``[plugins.execution_tools]``."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is listed, and what is counted."""

    listed: bool = setting(
        False,
        "List the three tools of the history with the meta-tools; they can be found and called in any case.",
    )
    list_search: bool = setting(False, "List search_executions as well; it can be called in any case.")
    dry_runs_in_summaries: bool = setting(False, "Count rehearsals in get_agent_activity_summary.")
