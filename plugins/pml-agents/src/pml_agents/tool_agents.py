"""Agents that are tools of MCP servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject, ToolCall, ToolId

from .answers import USUAL, Answer, read
from .failures import AgentError
from .settings import Agent

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Run


async def ask(agent: Agent, message: str, context: str, run: Run) -> Answer:
    """Call the tool, as part of this execution.

    Raises:
        AgentError: The call failed.
    """
    whole = f"{message}\n\n{context}" if context else message
    call = ToolCall(id="ask", tool=ToolId(agent.tool), arguments={**agent.arguments, agent.argument: whole})
    outcome = await run.dispatch(call)
    answer = _answer(agent, outcome)
    answer.cost_usd = outcome.cost_usd if outcome.cost_usd is not None else answer.cost_usd
    if outcome.failure is not None:
        raise AgentError(outcome.failure.code, outcome.failure.message, retryable=outcome.failure.retryable)
    if not answer.response and not answer.error:
        raise AgentError("agent.output", "there is no response in its result; set fields.response")
    return answer


def _answer(agent: Agent, outcome: Outcome) -> Answer:
    output = outcome.output
    result = output.value if isinstance(output, RawObject) else output
    if not isinstance(result, Mapping):
        return Answer()
    structured = result.get("structuredContent")
    answer = read(result, agent.fields, {})
    usual = read(structured, None, {**USUAL, "response": ()}) if isinstance(structured, Mapping) else Answer()
    usual.response = _text(result) or ("" if structured is None else json.dumps(structured, ensure_ascii=False))
    for name in USUAL:
        if getattr(answer, name) in (None, ""):
            setattr(answer, name, getattr(usual, name))
    return answer


def _text(result: Mapping[str, Any]) -> str:
    blocks = result.get("content")
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))
