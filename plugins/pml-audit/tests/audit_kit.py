"""A gateway with the audit, and those who call it."""

from __future__ import annotations

import asyncio

import pml_approvals.plugin
import pml_execution_tools.plugin
from pml_audit import plugin
from pml_hookspecs import Failure, Session, Status, ToolCall
from pml_testing.dispatching import Code, InOrder, hooks
from pml_testing.fakes import outcome
from pml_testing.gateway import ScriptedServer, running

ALICE = Session(key="a", principal="alice", client="tester/1", endpoint="work")
BOSS = Session(key="b", principal="boss", scopes=frozenset({"approve"}))
SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "read", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "drop", "inputSchema": SCHEMA, "annotations": {"destructiveHint": True}},
]


class Limited:
    """Ends as a limiter would."""

    phase = 700

    async def __call__(self, task, run, call_next):
        if getattr(task, "tool", "") != "fs:slow":
            return await call_next(task, run)
        details = {"rule": "few", "retry_after_s": 3}
        failure = Failure("limit.time_out", "Too slow.", retryable=True, details=details)
        return outcome(task.id, status=Status.TIMED_OUT, failure=failure)


def no_drops(entry, session):
    return not (entry.name == "drop" and session.principal == "mallory")


def gateway(table=None, plugins=None, **options):
    used = {
        ("executor", "in_order"): InOrder,
        ("executor", "code"): Code,
        ("hooks", "audit"): plugin,
        ("hooks", "approvals"): pml_approvals.plugin,
        ("hooks", "execution_tools"): pml_execution_tools.plugin,
        ("hooks", "others"): hooks(wrappers=[Limited()], filters=[no_drops]),
    }
    servers = {"fs": ScriptedServer([*TOOLS, {"name": "slow", "inputSchema": SCHEMA}])}
    tables = {"audit": {"poll_s": 0.02, **(table or {})}}
    return running(servers, plugins={**used, **(plugins or {})}, tables=tables, **options)


def call(tool, **arguments):
    return ToolCall(id="a", tool=tool, arguments=arguments)


async def until_there(rows, kind, count=1):
    async with asyncio.timeout(10):
        while len(rows(kind)) < count:  # noqa: ASYNC110 - another thread writes it
            await asyncio.sleep(0.005)
    return rows(kind)
