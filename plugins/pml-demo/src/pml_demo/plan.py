"""The workflow that the demo rehearses and then runs."""

from __future__ import annotations

from typing import Any

from .materials import COMMITS, Materials

SOUGHT = {
    "now": "what time is it",
    "log": "show the commits of a git repository",
    "table": "create a table in the database",
    "save": "write a row to the database",
    "read": "read rows from the database",
}
"""What a model that does not see the tools would search for, by the id of the task."""


def workflow(materials: Materials, *, with_git: bool) -> dict[str, Any]:
    """What ``execute_workflow`` takes: three tasks at once, one that needs the results of all, one after it."""
    insert = "INSERT INTO standup VALUES ('{{now.datetime}}', '{{now.day_of_week}}', '{{log}}')"
    if not with_git:
        insert = insert.replace("{{log}}", "")
    log = {"id": "log", "tool": "git:git_log", "arguments": _log_arguments(materials)}
    tasks = [
        {"id": "now", "tool": "time:get_current_time", "arguments": {"timezone": "UTC"}},
        *([log] if with_git else []),
        {
            "id": "table",
            "tool": "sqlite:create_table",
            "arguments": {"query": "CREATE TABLE standup (at TEXT, day TEXT, commits TEXT)"},
        },
        {
            "id": "save",
            "tool": "sqlite:write_query",
            "arguments": {"query": insert},
            "depends_on": ["table"],
        },
        {
            "id": "read",
            "tool": "sqlite:read_query",
            "arguments": {"query": "SELECT day, length(commits) AS log_characters FROM standup"},
            "depends_on": ["save"],
        },
    ]
    return {"intent": "note what was done today", "workflow": {"tasks": tasks}}


def _log_arguments(materials: Materials) -> dict[str, Any]:
    return {"repo_path": str(materials.repository), "max_count": len(COMMITS)}
