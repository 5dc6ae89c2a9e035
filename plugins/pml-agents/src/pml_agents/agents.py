"""The agents as tools: what a call of one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, InvalidArguments, MetaTool, Outcome, Scope, ToolFailed
from pml_kit.system.clock import Clock

from .answers import shortened
from .definitions import agent_tool
from .failures import AgentError
from .run_queue import RunQueue

if TYPE_CHECKING:
    import asyncio

    from pml_hookspecs import Run, Services

    from .answers import Answer
    from .settings import Agent, Settings

EVERYONE = Scope(principals=None)
Progress = Callable[[float, float | None, str], None]


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody of this process who waits for an execution that runs in the background."""

    ended: asyncio.Future[Outcome | None]
    """None when it was cancelled."""
    progress: Progress


class Agents:
    """The agents of one gateway: their settings, their queue, and who waits for which execution."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self.services, self.settings = services, settings
        self.turns = RunQueue(services)
        self.callers: dict[ExecutionId, Caller] = {}

    def tools(self) -> Sequence[MetaTool]:
        """One for each agent, by name."""
        return [
            MetaTool(definition=agent_tool(name, agent), call=_Call(self, name, agent))
            for name, agent in sorted(self.settings.agents.items())
        ]


class _Call:
    """Answers calls of one agent's tool."""

    def __init__(self, agents: Agents, name: str, agent: Agent) -> None:
        self._agents, self._name, self._agent = agents, name, agent

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """Wait for the turn, ask the agent, note what it cost and said.

        Raises:
            InvalidArguments: There is no message.
            ToolFailed: The agent failed; says why.
        """
        message, context, parallel = _given(self._name, arguments)
        answer: Answer | None = None
        try:
            answer = await self._in_turn(message, context, run, parallel=parallel)
        except AgentError as exc:
            raise self._failed(exc, None) from None
        self._note(answer, run)
        if answer.error:
            raise self._failed(AgentError("agent.failed", answer.error), answer)
        return {"agent_name": self._name, "response": answer.response, **self._about(answer)}

    async def _in_turn(self, message: str, context: str, run: Run, *, parallel: bool) -> Answer:
        caller = self._agents.callers.get(run.id)
        progress = run.progress if caller is None else caller.progress
        steps = 0

        def tell(text: str) -> None:
            nonlocal steps
            steps += 1
            progress(steps, None, f"{self._name}: {text}")

        def waits(ahead: int) -> None:
            tell(f"waits for its turn, {ahead} before this one" if ahead else "waits for its turn")

        turn = self._agents.turns.turn(self._name, self._agent, id=run.id, parallel=parallel, waits=waits)
        async with turn:
            await run.begin()
            tell("works")
            limit_s = self._agent.timeout_s
            try:
                async with Clock(run, limit_s) as clock:
                    return await self._ask(message, context, run, lambda _count, text: tell(text))
            except TimeoutError:
                if not clock.expired:
                    raise
                raise AgentError(
                    "agent.timed_out", f"it took longer than {limit_s:g} s (timeout_s) and was ended", retryable=True
                ) from None

    async def _ask(self, message: str, context: str, run: Run, told: Callable[[int, str], None]) -> Answer:
        agent = self._agent
        if agent.kind == "command":
            from . import command_agents
            from .turn_watchdog import watched_turn

            try:
                async with watched_turn(run.id) as variables:
                    held = replace(agent, env={**agent.env, **variables})
                    return await command_agents.ask(held, message, context, told)
            except OSError as exc:
                raise AgentError("agent.start", f"what watches over it cannot be started: {exc}") from exc
        if agent.kind == "url":
            from . import http_agents

            return await http_agents.ask(agent, message, context, told, id=run.id)
        from . import tool_agents

        return await tool_agents.ask(agent, message, context, run)

    def _note(self, answer: Answer, run: Run) -> None:
        transcript = answer.transcript
        if transcript is not None:
            transcript = shortened(transcript, self._agents.settings.transcript_bytes)
        run.note(
            cost_usd=answer.cost_usd,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            context_used=answer.context_used,
            context_max=answer.context_max,
            transcript=transcript,
        )

    def _about(self, answer: Answer) -> dict[str, Any]:
        about: dict[str, Any] = {
            "cost_usd": answer.cost_usd,
            "tokens_in": answer.tokens_in,
            "tokens_out": answer.tokens_out,
            "context_used": answer.context_used,
            "context_max": answer.context_max,
            "model": answer.model or self._agent.model or None,
        }
        return {**about, "remarks": answer.remarks} if answer.remarks else about

    def _failed(self, error: AgentError, answer: Answer | None) -> ToolFailed:
        message = f"Agent {self._name!r} failed: {error.message}."
        content = {
            "agent_name": self._name,
            "error": {"code": error.code, "message": message, "retryable": error.retryable},
        }
        if answer is not None:
            content |= {"response": answer.response, **self._about(answer)}
        return ToolFailed(message, content)


def _given(name: str, arguments: Mapping[str, Any]) -> tuple[str, str, bool]:
    message, context, parallel = (arguments.get(part) for part in ("message", "context", "parallel"))
    if not isinstance(message, str) or not message.strip():
        raise InvalidArguments(f"{name}: message must be a text that says what to do")
    if context is not None and not isinstance(context, str):
        raise InvalidArguments(f"{name}: context must be a text")
    if parallel is not None and not isinstance(parallel, bool):
        raise InvalidArguments(f"{name}: parallel must be true or false")
    if unknown := sorted(set(arguments) - {"message", "context", "parallel"}):
        raise InvalidArguments(f"{name}: unknown argument {unknown[0]!r}; there are message, context and parallel")
    return message, context or "", bool(parallel)
