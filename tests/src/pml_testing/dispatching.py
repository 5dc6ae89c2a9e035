"""What tests of the dispatcher share: executors, a wrapper, a tracer and tools that do as they are told."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from pml_core.gateway import Gateway
from pml_hookspecs import (
    CallNext,
    CapabilityRun,
    CodeRun,
    Ended,
    ExecutionQuery,
    ExecutionRecord,
    InvalidArguments,
    MetaTool,
    Outcome,
    Phase,
    Run,
    Scope,
    Session,
    Span,
    Status,
    Task,
    ToolCall,
    ToolId,
    Workflow,
    hookimpl,
)

from .fakes import outcome
from .gateway import ScriptedServer, running

SESSION = Session(key="k", principal="alice", client="tester/1", intent="")


class InOrder:
    """Runs a workflow's tasks one after the other."""

    handles = frozenset({Workflow})

    def __init__(self, settings: Any = None, services: Any = None) -> None:
        """Takes what every driver does."""

    async def execute(self, task: Workflow, run: Run) -> Outcome:
        results = [await run.dispatch(node) for node in task.tasks]
        bad = next((r for r in results if not r.status.good), None)
        status = Status.OK if bad is None else bad.status
        return outcome(task.id, [r.status for r in results], status, failure=None if bad is None else bad.failure)


class Code:
    """Answers with whatever the source says in ``answers``."""

    handles = frozenset({CodeRun, CapabilityRun})
    answers: ClassVar[dict[str, Any]] = {}

    def __init__(self, settings: Any = None, services: Any = None) -> None:
        """Takes what every driver does."""

    async def execute(self, task: CodeRun, run: Run) -> Any:
        answer = self.answers[task.source]
        return await answer(task, run) if callable(answer) else outcome(task.id, answer)


class Simulator:
    """Answers tool calls of rehearsals itself; keeps every run it sees."""

    phase = Phase.SUBSTITUTE

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any]] = []

    async def __call__(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        self.seen.append((task, run))
        if run.dry_run and isinstance(task, ToolCall):
            return outcome(task.id, {"content": []}, Status.SIMULATED)
        return await call_next(task, run)


class Tracer:
    """Keeps spans."""

    last: ClassVar[Tracer]

    def __init__(self, settings: Any = None, services: Any = None) -> None:
        self.started_: list[Span] = []
        self.ended_: list[Ended] = []
        Tracer.last = self

    def started(self, span: Span) -> None:
        self.started_.append(span)

    def ended(self, ended: Ended) -> None:
        self.ended_.append(ended)

    async def flush(self) -> None:
        return None


def workflow(tool: str = "fs:read", *, dry_run: bool | None = None, intent: str = "") -> Workflow:
    """A plan with one call."""
    return Workflow(id="w", tasks=(ToolCall(id="a", tool=ToolId(tool)),), dry_run=dry_run, intent=intent)


def plan(arguments: Mapping[str, Any]) -> Workflow:
    """The plan that arguments describe."""
    if "tool" not in arguments:
        raise InvalidArguments("run_it: say which tool")
    return workflow(arguments["tool"], dry_run=arguments.get("dry_run"), intent=arguments.get("intent", ""))


def other_call(arguments: Mapping[str, Any]) -> ToolCall:
    """The call that arguments describe."""
    return ToolCall(id="", tool=arguments["tool"], arguments=arguments.get("arguments", {}), extra={"x-mine": 1})


def tool(name: str, **options: Any) -> MetaTool:
    """A tool of the gateway's own."""
    return MetaTool(definition={"name": name, "inputSchema": {"type": "object"}}, **options)


async def ours(arguments: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Answers with its arguments."""
    return {"given": dict(arguments)}


async def hangs(task: Any, run: Run) -> Any:
    """Never answers."""
    await asyncio.Event().wait()


def hooks(*tools: MetaTool, wrappers: Iterable[Any] = (), filters: Iterable[Any] = ()) -> types.ModuleType:
    """A hook plugin."""
    made: Any = types.ModuleType("made")
    made.pml_meta_tools = hookimpl(lambda services: tools)
    made.pml_wrap_executor = hookimpl(lambda services: wrappers)
    made.pml_filter_tools = hookimpl(lambda services: filters)
    plugin: types.ModuleType = made
    return plugin


def gateway(
    servers: Mapping[str, ScriptedServer] | None = None,
    *,
    tools: Iterable[MetaTool] = (),
    wrappers: Iterable[Any] = (),
    filters: Iterable[Any] = (),
    tracer: bool = False,
    **options: Any,
) -> AbstractAsyncContextManager[Gateway]:
    """A gateway with all of the above; one server ``fs`` with the tool ``read`` if none is given."""
    plugins: dict[tuple[str, str], Any] = {("executor", "in_order"): InOrder, ("executor", "code"): Code}
    plugins["hooks", "made"] = hooks(*tools, wrappers=wrappers, filters=filters)
    if tracer:
        plugins["tracer", "log"] = Tracer
    return running({"fs": ScriptedServer(["read"])} if servers is None else servers, plugins=plugins, **options)


async def records(made: Gateway) -> Sequence[ExecutionRecord]:
    """What was executed, in the order of its beginning."""
    assert made.store is not None
    page = await made.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    return sorted(page.items, key=lambda r: r.id)
