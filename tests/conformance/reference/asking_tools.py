"""Tools and a prompt that ask as servers do since 2026-07-28: they answer ``input_required`` and are called again."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any

from fixture import Context, compact, prompt, says, text, tool
from mcp import MCPError, types
from mcp.types import CallToolRequestParams, CallToolResult, GetPromptRequestParams, InputRequiredResult

_KEY = secrets.token_bytes(32)


def seal(state: str) -> str:
    """A state that the client can keep but not change."""
    return f"{state}.{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def unseal(sealed: str) -> str:
    """The state that was sealed."""
    state, _, _ = sealed.rpartition(".")
    if not hmac.compare_digest(seal(state).encode(), sealed.encode()):
        raise MCPError(types.INVALID_PARAMS, "requestState is not one that this server gave")
    return state


def form(message: str, **properties: str) -> types.ElicitRequest:
    """A form of properties that are all required, each with its type."""
    schema = {
        "type": "object",
        "properties": {name: {"type": type} for name, type in properties.items()},
        "required": list(properties),
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(question: str, max_tokens: int) -> types.CreateMessageRequest:
    """A question for the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=question))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


def asks(requests: Mapping[str, types.InputRequest], state: str | None = None) -> InputRequiredResult:
    """The result that asks."""
    sealed = None if state is None else seal(state)
    return InputRequiredResult(input_requests=dict(requests), request_state=sealed)


def answered(params: types.InputResponseRequestParams, requests: Mapping[str, types.InputRequest]) -> dict[str, Any]:
    """The answers by key, as JSON; empty unless every request has an answer. Answers to nothing are ignored."""
    given = params.input_responses or {}
    if not all(key in given for key in requests):
        return {}
    return {key: given[key].model_dump(by_alias=True, mode="json", exclude_none=True) for key in requests}


def state_of(params: types.InputResponseRequestParams) -> str | None:
    """The state that came back; None on the first call."""
    return None if params.request_state is None else unseal(params.request_state)


@tool("Asks for a name, and greets.")
async def test_input_required_result_elicitation(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    requests = {"user_name": form("What is your name?", name="string")}
    answers = answered(params, requests)
    if not answers:
        return asks(requests)
    return text(f"Hello, {answers['user_name'].get('content', {}).get('name', 'stranger')}!")


@tool("Asks the client's model.")
async def test_input_required_result_sampling(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    requests = {"capital_question": sample("What is the capital of France?", 100)}
    answers = answered(params, requests)
    return text(f"The model said: {compact(answers)}") if answers else asks(requests)


@tool("Asks for the client's roots.")
async def test_input_required_result_list_roots(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    requests = {"client_roots": types.ListRootsRequest(params=types.RequestParams())}
    answers = answered(params, requests)
    return text(f"The roots are: {compact(answers)}") if answers else asks(requests)


@tool("Asks for a confirmation, and gives the client a state to keep.")
async def test_input_required_result_request_state(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    requests = {"confirm": form("Please confirm", ok="boolean")}
    answers, state = answered(params, requests), state_of(params)
    return text("state-ok") if answers and state == "confirming" else asks(requests, "confirming")


@tool("Asks the user, the model and the client at once.")
async def test_input_required_result_multiple_inputs(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    requests: dict[str, types.InputRequest] = {
        "user_name": form("What is your name?", name="string"),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(params=types.RequestParams()),
    }
    answers, state = answered(params, requests), state_of(params)
    return text(compact(answers)) if answers and state == "three" else asks(requests, "three")


@tool("Asks twice, one after the other.")
async def test_input_required_result_multi_round(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    first = {"step1": form("Step 1: What is your name?", name="string")}
    second = {"step2": form("Step 2: What is your favorite color?", color="string")}
    state = state_of(params)
    if state == "second" and (answers := answered(params, second)):
        return text(f"Done: {compact(answers)}")
    if state == "second" or (state == "first" and answered(params, first)):
        return asks(second, "second")
    return asks(first, "first")


@tool("Gives the client a state that it must not change.")
async def test_input_required_result_tampered_state(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    requests = {"confirm": form("Please confirm", ok="boolean")}
    answers, state = answered(params, requests), state_of(params)
    return text("The state is as it was") if answers and state == "sealed" else asks(requests, "sealed")


@tool("Asks only what the client says it can answer.")
async def test_input_required_result_capabilities(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    requests: dict[str, types.InputRequest] = {}
    if ctx.session.check_client_capability(types.ClientCapabilities(sampling=types.SamplingCapability())):
        requests["model"] = sample("Say something", 50)
    if ctx.session.check_client_capability(types.ClientCapabilities(elicitation=types.ElicitationCapability())):
        requests["user"] = form("Please confirm", ok="boolean")
    if requests and not answered(params, requests):
        return asks(requests)
    return text(f"Answered: {', '.join(requests) or 'nothing was asked'}")


@tool("Asks the user, on a stream.")
async def test_streaming_elicitation(
    ctx: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    # Progress before the answer makes the answer a stream, where a server that still sends requests would send one.
    await ctx.session.report_progress(0, 1)
    requests = {"confirm": form("Please confirm", ok="boolean")}
    return text("Confirmed") if answered(params, requests) else asks(requests)


@prompt("Asks for a context.")
async def test_input_required_result_prompt(
    ctx: Context, params: GetPromptRequestParams
) -> types.GetPromptResult | InputRequiredResult:
    requests = {"user_context": form("What context should the prompt use?", context="string")}
    answers = answered(params, requests)
    if not answers:
        return asks(requests)
    return says(types.TextContent(text=f"Use this context: {compact(answers['user_context'])}"))


TOOLS = [
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_tampered_state,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
]
PROMPTS = [test_input_required_result_prompt]
