"""The report as one screen of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDE = 96
"""Columns from which on two tables stand side by side."""


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print the report; as wide as the console, at most some 60 lines from 100 columns on."""
    _heading(console, report)
    _pair(console, _servers(report), _modes(report))
    listed, searched = report["task_listed"], report["task_searched"]
    less = 100 * (1 - searched["tokens"] / listed["tokens"])
    _line(console, "Saved is of the list. The plan below as a whole task, answers included:", style="dim")
    _line(console, f"  every tool listed: {listed['tokens']:,} tokens, {listed['requests']} requests", style="dim")
    saved = f"{less:.0f} % saved" if less >= 0 else f"{-less:.0f} % more"
    how = f"{searched['tokens']:,} tokens ({saved}), {searched['requests']} requests"
    _line(console, f"  searches and one plan: {how}", style="dim")
    _line(console, f"hybrid and semantic are told that the client wants to: {report['intent']}", style="dim")
    console.print()
    _search(console, report)
    _plan(console, report)
    _history(console, report)
    _connect(console, report)


def _table(title: str, *columns: str, right: Sequence[str] = (), shrinks: Sequence[str] = ()) -> Table:
    """A table whose columns named in ``shrinks`` give way when the console is narrow."""
    table = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for column in columns:
        table.add_column(
            column, justify="right" if column in right else "left", no_wrap=column not in shrinks, overflow="ellipsis"
        )
    return table


def _row(table: Table, *cells: object) -> None:
    # Cells do not wrap themselves: a column that may is one that rich makes narrower.
    table.add_row(*(Text(str(cell), no_wrap=True, overflow="ellipsis") for cell in cells))


def _pair(console: Console, left: RenderableType, right: RenderableType) -> None:
    if console.width < WIDE:
        console.print(left, "", right, sep="\n")
        return
    grid = Table.grid(padding=(0, 4))
    grid.add_row(left, right)
    console.print(grid)


def _heading(console: Console, report: Mapping[str, Any]) -> None:
    tools = sum(server["tools"] for server in report["servers"])
    title = f"PML {report['version']} in front of {len(report['servers'])} MCP servers with {tools} tools"
    console.print(Text(title, style="bold"), Text(f"({report['took_s']:.1f} s)", style="dim"))
    for note in report["notes"]:
        _line(console, f"Note: {note}.")
    console.print()


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _clipped(console: Console, text: str) -> None:
    console.print(Text(text), no_wrap=True, overflow="ellipsis")


def _servers(report: Mapping[str, Any]) -> Table:
    table = _table("Servers found", "server", "package", "state", "tools", right=["tools"])
    for server in report["servers"]:
        _row(table, server["name"], server["package"].rpartition("/")[2], server["state"], server["tools"])
    return table


def _modes(report: Mapping[str, Any]) -> Table:
    table = _table("In your context: the list", "mode", "tools", "tokens", "saved", right=["tools", "tokens", "saved"])
    for mode in report["modes"]:
        saved = f"{mode['saved_percent']:.0f} %" if mode["mode"] != "full_proxy" else "-"
        _row(table, mode["mode"], mode["tools"], f"{mode['tokens']:,}", saved)
    return table


def _search(console: Console, report: Mapping[str, Any]) -> None:
    found = report["search"]
    title = f"search_tools “{found['query']}”, in {found['total_tools']} tools"
    table = _table(
        title, "score", "name", "parameters", "description", right=["score"], shrinks=["parameters", "description"]
    )
    for tool in found["tools"]:
        _row(table, f"{tool['score']:.2f}", tool["name"], tool["parameters"], tool["description"])
    console.print(table)
    console.print()


def _plan(console: Console, report: Mapping[str, Any]) -> None:
    plan = report["plan"]
    rehearsed = {task["id"]: task for task in plan["rehearsed"]["tasks"]}
    save = next(task for task in plan["request"]["workflow"]["tasks"] if task["id"] == "save")
    columns = ("task", "tool", "needs", "rehearsed", "for real", "ms")
    table = _table(
        "execute_workflow, with dry_run and without", *columns, right=["ms"], shrinks=["rehearsed", "for real"]
    )
    for task in plan["ran"]["tasks"]:
        tool = task["tool"]
        simulated = _brief(rehearsed[task["id"]]["result"]).removesuffix(f" of {tool}")
        depends_on = ", ".join(task.get("depends_on", ())) or "-"
        _row(table, task["id"], tool, depends_on, simulated, _brief(task["result"]), task["duration_ms"])
    console.print(table)
    _clipped(console, f"The query of save: {save['arguments']['query']}")
    before, after = plan["before"], plan["after_run"]
    _line(
        console,
        f"The rehearsal touched nothing: {_contents(before)}, every byte as before. After the run: {_contents(after)}.",
        style="green",
    )
    console.print()


def _contents(trace: Mapping[str, Any]) -> str:
    return f"{trace['tables']} table{'s' if trace['tables'] != 1 else ''}, {trace['rows']} rows"


def _brief(result: Any) -> str:
    """A result on one line; the text of a whole ``CallToolResult``, structured content of it first."""
    if isinstance(result, Mapping) and isinstance(result.get("content"), list):
        texts = [block.get("text", "") for block in result["content"] if isinstance(block, Mapping)]
        result = result.get("structuredContent") or " ".join(texts)
    if isinstance(result, Mapping):
        return ", ".join(f"{key}: {_brief(value)}" for key, value in result.items())
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return " ".join(text.split())


def _history(console: Console, report: Mapping[str, Any]) -> None:
    history = report["history"]
    title = f"list_recent_executions: {history['total_count']} in the last hour"
    table = _table(title, "started", "what", "how", "status", "s", "id", right=["s"], shrinks=["what", "id"])
    for ran in history["executions"]:
        started = ran["started_at"].partition("T")[2].partition(".")[0].rstrip("Z")
        how = "rehearsed" if ran.get("dry_run") else "ran"
        _row(table, started, _brief(ran["message"]), how, ran["status"], ran["duration_seconds"], ran["id"])
    console.print(table)
    last = history["last"]
    _clipped(console, f"get_execution_result of the newest: {last['status']}, {_brief(_final(last['response']))}")
    console.print()


def _final(response: Any) -> Any:
    """What the last task of a workflow gave, when that is what the response tells of."""
    tasks = response.get("tasks") if isinstance(response, Mapping) else None
    return {f"task {tasks[-1]['id']}": tasks[-1].get("result")} if tasks else response


def _connect(console: Console, report: Mapping[str, Any]) -> None:
    _line(console, "Connect your client (after: pml import)", style="bold")
    for connection in report["connect"]:
        _line(console, f"{connection['client']} ({connection['where']}):", style="dim")
        _line(console, f"  {connection['text']}")
