"""``chat_with_agent`` and ``cancel_execution``."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    CallNext,
    ExecutionId,
    InvalidArguments,
    Outcome,
    Phase,
    RawObject,
    RunOptions,
    ToolCall,
    ToolFailed,
    ToolId,
    UnauthenticatedError,
)
from pml_kit.cleanup import finish_despite_cancel
from pml_kit.offers import ACCESS, required

from .agents import EVERYONE, Agents, Caller
from .settings import SERVER

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Run, Services, Session, Task

LOOK_S = 2.0
"""How often whoever waits looks into the store, in case nobody tells [s]."""
LONGEST_INTENT = 2000
"""How much of a message is what the execution is said to be for [characters]."""
UNDER_WAY = ("pending", "running")
SYSTEM = "system"
"""Scope of those who may cancel everybody's."""
NUMBERS = ("cost_usd", "tokens_in", "tokens_out", "context_used", "context_max")


class CompletionNotifier:
    """Tells those who wait how executions ended. Implements :class:`pml_hookspecs.Wrapper`."""

    phase = Phase.OBSERVE

    def __init__(self, agents: Agents) -> None:
        self._callers = agents.callers

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Hand on what nobody waits for as it is."""
        if run.id not in self._callers:
            return call_next(task, run)
        return self._seen(self._callers[run.id].ended, call_next(task, run))

    async def _seen(self, ended: asyncio.Future[Outcome | None], pending: Awaitable[Outcome]) -> Outcome:
        outcome: Outcome | None = None
        try:
            outcome = await pending
        finally:
            if not ended.done():
                ended.set_result(outcome)
        return outcome


class ChatWithAgent:
    """Answers calls of ``chat_with_agent``."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """Run an agent, and wait for it or not.

        The agent's run is an execution of its own, with the agent's name, which can be queried, cancelled and is not
        lost when the gateway goes down.

        Raises:
            InvalidArguments: There is no such agent, or no message.
            ToolFailed: The agent failed.
        """
        name, in_background = self._agent_of(arguments, run.session), _flag(arguments, "async")
        call = self._call(name, arguments)
        if not (in_background or call.arguments.get("parallel")) and run.session.agent == name:
            raise InvalidArguments(
                f"chat_with_agent: {name!r} is the agent that asks, and would wait for itself; say parallel or async"
            )
        id = new_id()
        options = _options(id, name, call, run)
        if in_background:
            return await self._in_background(call, run, id, options)
        caller = Caller(asyncio.get_running_loop().create_future(), run.progress)
        self._agents.callers[id] = caller
        try:
            outcome = await self._run(call, run, id, options)
        finally:
            del self._agents.callers[id]
        return _told(name, id, outcome)

    def _agent_of(self, arguments: Mapping[str, Any], session: Session) -> str:
        """What may not be asked is as unknown as what is not there."""
        name = arguments.get("agent_name")
        if not isinstance(name, str) or not name:
            raise InvalidArguments("chat_with_agent: agent_name must be the name of an agent")
        visible = self._agents.services.catalog.visible(session)
        if ToolId(f"{SERVER}:{name}") not in visible or name not in self._agents.settings.agents:
            names = sorted(n for n in self._agents.settings.agents if ToolId(f"{SERVER}:{n}") in visible)
            known = f"there are {', '.join(names)}" if names else "there are none that you may ask"
            raise InvalidArguments(f"chat_with_agent: no agent {name!r}; {known}")
        return name

    def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        known = {"agent_name", "message", "context", "parallel", "async"}
        if unknown := sorted(set(arguments) - known):
            raise InvalidArguments(f"chat_with_agent: unknown argument {unknown[0]!r}; there are {sorted(known)}")
        message, context = arguments.get("message"), arguments.get("context")
        if not isinstance(message, str) or not message.strip():
            raise InvalidArguments("chat_with_agent: message must be a text that says what to do")
        if context is not None and not isinstance(context, str):
            raise InvalidArguments("chat_with_agent: context must be a text")
        given: dict[str, Any] = {"message": message}
        if context:
            given["context"] = context
        if _flag(arguments, "parallel"):
            given["parallel"] = True
        return ToolCall(id="chat", tool=ToolId(f"{SERVER}:{name}"), arguments=given)

    async def _begin(self, call: ToolCall, run: Run, id: ExecutionId, options: RunOptions) -> None:
        """Have it recorded and begun; whoever takes the request back meanwhile takes back all of it.

        Raises:
            Exception: The store's, when it cannot be recorded; nothing runs then.
        """
        services = self._agents.services

        async def start() -> None:
            await services.start(call, run.session, options)
            run.note(recorded_as=id)

        try:
            await finish_despite_cancel(start(), name="start of a chat")
        except asyncio.CancelledError:
            await finish_despite_cancel(_stop(services, id), name="stop of a chat")
            raise

    async def _in_background(self, call: ToolCall, run: Run, id: ExecutionId, options: RunOptions) -> Mapping[str, Any]:
        name = options.agent
        try:
            await self._begin(call, run, id, options)
        except Exception as exc:
            self._agents.services.log.warning("an agent's run could not be recorded", agent=name, problem=str(exc))
            message = f"Agent {name!r} was not asked: its run cannot be recorded; try again, or without async."
            content = {"agent_name": name, "execution_id": id, "status": "failed", "error": message}
            raise ToolFailed(message, content) from exc
        return {"agent_name": name, "execution_id": id, "status": "pending"}

    async def _run(self, call: ToolCall, run: Run, id: ExecutionId, options: RunOptions) -> Outcome | None:
        """Begin in the background, so that it is recorded from its beginning on and can be cancelled, and wait."""
        services = self._agents.services
        try:
            await self._begin(call, run, id, options)
        except Exception as exc:
            services.log.warning("an agent runs without being recorded yet", agent=options.agent, problem=str(exc))
            run.note(recorded_as=id)
            return await services.run(call, run.session, options)
        outcome = None
        try:
            outcome = await self._ended(id)
        finally:
            if outcome is None:  # also where it would wait for the next gateway: the caller hears that it is over
                await finish_despite_cancel(_stop(services, id), name="stop of a chat")
        return outcome

    async def _ended(self, id: ExecutionId) -> Outcome | None:
        caller = self._agents.callers[id]
        while True:
            await asyncio.wait((caller.ended,), timeout=LOOK_S)
            if caller.ended.done():
                return caller.ended.result()
            try:
                record = await self._agents.services.store.executions.get(id, EVERYONE)
            except Exception as exc:
                self._agents.services.log.debug("the store cannot be asked", problem=str(exc))
                continue
            if record is not None and record.status not in UNDER_WAY:
                return _outcome_of(record)


class CancelExecution:
    """Answers calls of ``cancel_execution``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """Stop what is the caller's own; that others may see it does not let them.

        Raises:
            InvalidArguments: There is no such execution, or none of the caller's, or the caller has not said who it is.
        """
        given = arguments.get("execution_id")
        if not isinstance(given, str) or not given.strip():
            raise InvalidArguments("cancel_execution: execution_id must be the id of an execution")
        id = ExecutionId(given.strip())
        try:
            scope = await required(self._services, ACCESS).scope(run.session, results=True)
        except UnauthenticatedError as exc:
            raise InvalidArguments(str(exc)) from None
        record = await self._services.store.executions.get(id, scope)
        if record is None or not _may_cancel(run.session, record):
            raise InvalidArguments(f"cancel_execution: no execution {id!r} that you may cancel")
        stopped = record.status in UNDER_WAY and await self._services.stop(id)
        after = await self._services.store.executions.get(id, scope)
        return {
            "execution_id": id,
            "cancelled": bool(stopped),
            "status": str((record if after is None else after).status),
        }


def _may_cancel(session: Session, record: ExecutionRecord) -> bool:
    own = bool(session.agent) and record.as_agent and record.agent == session.agent
    return own or record.principal == session.principal or SYSTEM in session.scopes


def _options(id: ExecutionId, name: str, call: ToolCall, run: Run) -> RunOptions:
    return RunOptions(
        id=id,
        intent=call.arguments["message"][:LONGEST_INTENT],
        dry_run=("reads" if run.reads_for_real else True) if run.dry_run else False,
        trigger="agent" if run.session.agent else "mcp",
        agent=name,
    )


async def _stop(services: Services, id: ExecutionId) -> None:
    await services.stop(id)


def _outcome_of(record: ExecutionRecord) -> Outcome:
    status: Any = record.status
    return Outcome(
        task_id="chat",
        status=status,
        started_at=record.started_at,
        duration_ms=record.duration_ms or 0,
        output=record.response,
        failure=record.failure,
        cost_usd=record.cost_usd,
    )


def _told(name: str, id: ExecutionId, outcome: Outcome | None) -> Mapping[str, Any]:
    """What the caller hears.

    Raises:
        ToolFailed: The agent did not end well.
    """
    if outcome is None:
        message = f"Agent {name!r} was cancelled."
        raise ToolFailed(
            message, {"agent_name": name, "execution_id": id, "status": "failed", "response": None, "error": message}
        )
    result = outcome.output.value if isinstance(outcome.output, RawObject) else outcome.output
    content: Any = result.get("structuredContent") if isinstance(result, Mapping) else None
    if not isinstance(content, Mapping):
        content = {}
    told: dict[str, Any] = {
        "agent_name": name,
        "execution_id": id,
        "status": "success" if outcome.status.good else "failed",
        "response": content.get("response"),
        "error": None if outcome.failure is None else outcome.failure.message,
        "duration_seconds": outcome.duration_ms / 1000,
        **{number: content.get(number) for number in NUMBERS},
    }
    if told["cost_usd"] is None:
        told["cost_usd"] = outcome.cost_usd
    if content.get("remarks"):
        told["remarks"] = content["remarks"]
    if outcome.failure is not None:
        raise ToolFailed(outcome.failure.message, told)
    if outcome.status.value == "simulated":
        told["simulated"] = result
    return told


def _flag(arguments: Mapping[str, Any], name: str) -> bool:
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidArguments(f"chat_with_agent: {name} must be true or false")
    return bool(value)


def new_id() -> ExecutionId:
    """A UUIDv7 (RFC 9562 §5.7), which sorts by time to a fraction of a millisecond, as the gateway's own do."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    head = (milliseconds << 16 | 0x7000 | rest * 4096 // 1_000_000).to_bytes(8).hex()
    tail = os.urandom(8).hex()[:15]
    return ExecutionId(f"{head[:8]}-{head[8:12]}-{head[12:]}-8{tail[:3]}-{tail[3:]}")
