"""The screen: all of it, on one page, at any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pml_demo.screen import show

LONG = "a text that goes on and on, " * 20
TRACE = {"tables": 1, "rows": 2, "database": "d", "repository": "r"}


def task(id, tool, result, **more):
    return {"id": id, "tool": tool, "status": "ok", "duration_ms": 12, "result": result, **more}


SIMULATED = {"content": [{"type": "text", "text": "Simulated execution of sqlite:write_query"}]}
REPORT = {
    "version": "1.2.3",
    "took_s": 9.87,
    "notes": ["something was left out"],
    "servers": [
        {"name": f"server{n}", "package": f"@scope/package-{n}", "state": "up", "tools": 10 + n} for n in range(6)
    ],
    "modes": [
        {"mode": "full_proxy", "tools": 75, "tokens": 12345, "saved_percent": 0.0},
        {"mode": "meta_only", "tools": 3, "tokens": 377, "saved_percent": 96.9},
    ],
    "intent": "show the git log",
    "task_listed": {"tokens": 13000, "requests": 5},
    "task_searched": {"tokens": 6500, "requests": 6},
    "search": {
        "query": "read rows",
        "total_tools": 75,
        "tools": [
            {"name": "sqlite__read_query", "score": 0.7312, "parameters": LONG, "description": LONG} for _ in range(3)
        ],
    },
    "plan": {
        "request": {"workflow": {"tasks": [{"id": "save", "arguments": {"query": "INSERT '{{now.datetime}}'"}}]}},
        "rehearsed": {"tasks": [task("save", "sqlite:write_query", SIMULATED)]},
        "ran": {"tasks": [task("save", "sqlite:write_query", LONG, depends_on=["now", "log"])]},
        "before": TRACE,
        "after_rehearsal": TRACE,
        "after_run": {**TRACE, "tables": 2, "rows": 3},
    },
    "history": {
        "total_count": 3,
        "executions": [
            {
                "id": "01a1fe3c-7029-7915-87b1-2e30aba9d0ae",
                "message": LONG,
                "status": "success",
                "duration_seconds": 0.037,
                "started_at": "2026-01-05T13:12:16.123456Z",
                "dry_run": rehearsed,
            }
            for rehearsed in (False, True)
        ],
        "last": {
            "status": "success",
            "response": {"tasks": [task("read", "sqlite:read_query", "[{'day': 'Monday'}]")]},
        },
    },
    "connect": [
        {"client": "Claude Code", "where": "shell", "text": "claude mcp add pml -- /a/very/long/path" + "/x" * 60},
    ],
}


def shown(width):
    console = Console(file=io.StringIO(), width=width)
    show(REPORT, console)
    return console.file.getvalue()


def test_every_section_is_there():
    text = shown(100)
    for part in (
        "PML 1.2.3 in front of 6 MCP servers with 75 tools (9.9 s)",
        "Note: something was left out.",
        "package-3",
        "12,345",
        "97 %",
        "every tool listed: 13,000 tokens, 5 requests",
        "searches and one plan: 6,500 tokens (50 % saved), 6 requests",
        "0.73",
        "sqlite__read_query",
        "now, log",
        "Simulated execution ",
        "INSERT '{{now.datetime}}'",
        "1 table, 2 rows, every byte as before. After the run: 2 tables, 3 rows.",
        "13:12:16",
        "rehearsed",
        "0.037",
        "task read: [{'day': 'Monday'}]",
    ):
        assert part in text


def test_a_task_that_takes_more_with_searches_says_so():
    console = Console(file=io.StringIO(), width=100)
    show({**REPORT, "task_searched": {"tokens": 16900, "requests": 6}}, console)
    assert "searches and one plan: 16,900 tokens (30 % more), 6 requests" in console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_tables_keep_to_the_width_and_their_names_stay_whole(width):
    text = shown(width)
    long_lines = [line.rstrip() for line in text.splitlines() if len(line.rstrip()) > width]
    assert [line for line in long_lines if not line.startswith(("  claude", "The rehearsal"))] == []
    assert "sqlite__read_query" in text
    assert "sqlite:write_query" in text


def test_from_a_hundred_columns_on_it_is_one_screen():
    assert len(shown(100).splitlines()) <= 60


def test_what_is_to_be_copied_is_never_broken_or_cut():
    assert REPORT["connect"][0]["text"] in shown(80)
