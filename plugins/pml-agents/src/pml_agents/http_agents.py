"""Agents that are HTTP endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode

from .answers import Answer, Reader, UnreadableError, reader
from .failures import AgentError
from .processes import FLOOD
from .settings import CONTEXT, MESSAGE, Agent

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
WRITE_S = 60.0
"""Longest pause while the message is sent [s]."""
FIRST_DELAY_S, MOST_DELAY_S = 0.5, 30.0
TOO_MANY, UNAVAILABLE = 429, 503
"""Statuses that say that it did not begin with the message; the second only together with when to try again."""
SHOWN = 300
"""How much of a refusal stands in a message [characters]."""


async def ask(agent: Agent, message: str, context: str, told: Callable[[int, str], None], *, id: str) -> Answer:
    """Post the message and read what comes back. ``id`` is the execution's, sent as ``Idempotency-Key``.

    Raises:
        AgentError: It cannot be reached, refuses, or answers what its parser does not read.
    """
    import httpx2

    headers = {"Content-Type": "application/json", "Idempotency-Key": id, **agent.headers}
    if agent.token:
        headers["Authorization"] = f"Bearer {agent.token}"
    raw = encode(body(agent, message, context))
    limits = httpx2.Timeout(connect=CONNECT_S, write=WRITE_S, read=None, pool=None)
    async with httpx2.AsyncClient(timeout=limits, follow_redirects=False) as client:
        for attempt in range(1, agent.attempts + 1):
            try:
                return await _once(client, agent, raw, headers, told)
            except _RetryableError as exc:
                if attempt == agent.attempts:
                    raise AgentError("agent.unreachable", f"{exc} ({attempt} attempts)", retryable=True) from None
                usual_s = FIRST_DELAY_S * 2 ** (attempt - 1)
                await asyncio.sleep(min(usual_s if exc.delay_s is None else exc.delay_s, MOST_DELAY_S))
    raise AssertionError("attempts is 1 or more")


class _RetryableError(Exception):
    """It surely did not begin with the message. The message says why."""

    def __init__(self, message: str, delay_s: float | None = None) -> None:
        super().__init__(message)
        self.delay_s = delay_s


async def _once(
    client: httpx2.AsyncClient,
    agent: Agent,
    raw: bytes,
    headers: Mapping[str, str],
    told: Callable[[int, str], None],
) -> Answer:
    import httpx2

    try:
        async with client.stream("POST", agent.url, content=raw, headers=headers) as response:
            if not response.is_success:
                await _refused(response)
            output = _reader(agent, response.headers.get("content-type", ""), told)
            size = 0
            async for data in response.aiter_bytes():
                size += len(data)
                if size > FLOOD * agent.max_output_bytes:
                    raise AgentError("agent.output", "it answered without end")
                output.take(data)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
        raise _RetryableError(f"{_host(agent)} cannot be reached: {exc or type(exc).__name__}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        # It may have begun: nobody knows, so it is not asked twice.
        reason = str(exc) or type(exc).__name__
        raise AgentError("agent.unreachable", f"the connection to {_host(agent)} failed: {reason}") from None
    try:
        return output.answer()
    except UnreadableError as exc:
        raise AgentError("agent.output", str(exc)) from None


async def _refused(response: httpx2.Response) -> None:
    said = b""
    async for data in response.aiter_bytes():
        said += data
        if len(said) > SHOWN:
            break
    text = " ".join(said[:SHOWN].decode(errors="replace").split())
    message = f"it answered {response.status_code} {response.reason_phrase}" + (f": {text}" if text else "")
    delay_s = _delay_s(response.headers.get("retry-after", ""))
    if response.status_code == TOO_MANY or (response.status_code == UNAVAILABLE and delay_s is not None):
        raise _RetryableError(message, delay_s)
    raise AgentError("agent.refused", message)


def _delay_s(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _reader(agent: Agent, content_type: str, told: Callable[[int, str], None]) -> Reader:
    kind = content_type.partition(";")[0].strip().lower()
    guessed: Any = "text"
    if kind in ("application/x-ndjson", "application/jsonl"):
        guessed = "stream-json"
    elif kind == "application/json" or kind.endswith("+json"):
        guessed = "json"
    return reader(agent.parser or guessed, agent.max_output_bytes, agent.fields, told)


def body(agent: Agent, message: str, context: str) -> dict[str, Any]:
    """What is posted."""
    if _mentions(agent.body, MESSAGE):
        whole = message if not context or _mentions(agent.body, CONTEXT) else f"{message}\n\n{context}"
        filled: dict[str, Any] = _filled(agent.body, whole, context)
        return filled
    made = {**_filled(agent.body, "", context), "message": message}
    return {**made, "context": context} if context and not _mentions(agent.body, CONTEXT) else made


def _mentions(value: Any, placeholder: str) -> bool:
    if isinstance(value, str):
        return placeholder in value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return any(_mentions(one, placeholder) for one in inner)


def _filled(value: Any, message: str, context: str) -> Any:
    if isinstance(value, str):
        return message.join(piece.replace(CONTEXT, context) for piece in value.split(MESSAGE))
    if isinstance(value, Mapping):
        return {name: _filled(one, message, context) for name, one in value.items()}
    return [_filled(one, message, context) for one in value] if isinstance(value, (list, tuple)) else value


def _host(agent: Agent) -> str:
    from urllib.parse import urlsplit

    return urlsplit(agent.url).netloc
