"""Questions to clients: those of modern servers (``input_required``), and whom a transport's own are for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from pml_catalog.server_views import is_operator
from pml_hookspecs import Origin, RawObject, RpcError
from pml_kit.json_members import join, object_in, split
from pml_mcp.wire.client import NO_CLIENT, Client

Ask = Callable[[str, RawObject], Awaitable[Mapping[str, Any]]]
Send = Callable[[RawObject], Awaitable[RawObject]]

MOST_ROUNDS = 16
"""Times in a row that a server may answer one request with questions."""
NO_QUESTION = -31998
"""JSON-RPC code of our own: what the server asks cannot be asked of anybody."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Before a server that only wants to be asked again is asked again [s]."""


def asks_for_input(result: RawObject) -> bool:
    """Whether a result is a question. Decoded only when the bytes allow it."""
    return b'"input_required"' in result.raw and result.get("resultType") == "input_required"


async def answer_all(what: str, params: RawObject, result: RawObject, ask: Ask, send: Send) -> RawObject:
    """Answer a server's questions until it has none; its last result.

    Args:
        what: The request, for messages.
        params: It was sent with them.
        result: It was answered with this.
        ask: Puts a question to the client.
        send: Sends the request once more, with other params.

    Raises:
        RpcError: The client cannot answer, or the server does not stop asking.
        TimeoutError, TransportError: As ``send`` says.
    """
    pause_s = FIRST_PAUSE_S
    rounds = 0
    while asks_for_input(result):
        if rounds == MOST_ROUNDS:
            raise RpcError(NO_QUESTION, f"{what} was answered with questions {MOST_ROUNDS} times in a row")
        rounds += 1
        asked = split(result.raw)
        members = split(params.raw)
        members.pop("inputResponses", None)
        members.pop("requestState", None)
        if questions := object_in(asked, "inputRequests"):
            members["inputResponses"] = msgspec.Raw(join(await _answers(what, questions, ask)).raw)
            pause_s = FIRST_PAUSE_S
        else:
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        if "requestState" in asked:
            members["requestState"] = asked["requestState"]
        result = await send(join(members))
    return result


async def _answers(what: str, questions: Mapping[str, msgspec.Raw], ask: Ask) -> dict[str, bytes]:
    """One answer for each question; the first refusal ends them all."""

    async def answer(raw: msgspec.Raw) -> bytes:
        question = RawObject(bytes(raw))
        members = split(raw) if question.raw[:1] == b"{" else {}
        method = question.get("method") if members else None
        if not isinstance(method, str):
            raise RpcError(NO_QUESTION, f"{what} was answered with a question that is no request: {question!r}"[:300])
        params = members.get("params")
        given = RawObject(bytes(params)) if params is not None and bytes(params)[:1] == b"{" else RawObject(b"{}")
        return RawObject.of(await ask(method, given)).raw

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(answer(raw)) for key, raw in questions.items()}
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return {key: task.result() for key, task in tasks.items()}


def asked_for(client: Client | None, origin: Origin, params: RawObject) -> Client | None:
    """Whom a question that came while ``client`` was being served is for; None when that is for others to find out.

    Raises:
        RpcError: It is one of the transport's own, such as to log in, which is only for whoever runs the gateway.
    """
    if origin.id is not None:
        return client
    able = {} if client is None else client.capabilities.get("elicitation")
    mode = params.get("mode", "form")
    if (
        client is None
        or not is_operator(client.conversation.session)
        or not (isinstance(able, Mapping) and mode in able)
    ):
        raise RpcError(NO_CLIENT, f"Nobody who runs the gateway can be asked that ({mode}).")
    return client
