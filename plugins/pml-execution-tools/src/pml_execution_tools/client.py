"""Typed clients of the history over HTTP, for programs that do not speak MCP.

.. code-block:: python

    with HistoryClient("http://127.0.0.1:8808", key=os.environ["PML_KEY"]) as history:
        for execution in history.list_recent_executions(hours=1)["executions"]:
            print(execution["agent_name"], execution["status"], execution["message"])

Needs the extra ``client`` (``pip install 'pml-execution-tools[client]'``). Every method raises a
:class:`HistoryError` when there is no answer. What is not given is not sent; the gateway's defaults hold then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast, overload
from urllib.parse import quote

import httpx2

from .client_errors import (
    BY_STATUS,
    GatewayFailedError,
    HistoryError,
    KeyRefusedError,
    NoSuchExecutionError,
    NotAllowedError,
    TooOftenError,
    UnreachableError,
    WrongParameterError,
)
from .client_results import (
    AgentSummary,
    ExecutionList,
    ExecutionResult,
    ExecutionStatus,
    FleetSummary,
    TriggeredBy,
)

__all__ = [
    "AsyncHistoryClient",
    "GatewayFailedError",
    "HistoryClient",
    "HistoryError",
    "KeyRefusedError",
    "NoSuchExecutionError",
    "NotAllowedError",
    "TooOftenError",
    "UnreachableError",
    "WrongParameterError",
]
TIMEOUT_S = 30.0
SERVER_ERRORS = 500


class _HttpQuery(NamedTuple):
    path: str
    query: dict[str, Any]


def _list(filters: Mapping[str, Any]) -> _HttpQuery:
    return _HttpQuery("/api/executions", _given(filters))


def _search(query: str, filters: Mapping[str, Any]) -> _HttpQuery:
    return _HttpQuery("/api/executions/search", {"query": query, **_given(filters)})


def _result(agent_name: str, execution_id: str, *, include_transcript: bool) -> _HttpQuery:
    path = f"/api/agents/{quote(agent_name, safe='')}/executions/{quote(execution_id, safe='')}"
    return _HttpQuery(path, {"include_log": "true"} if include_transcript else {})


def _summary(which: Mapping[str, Any]) -> _HttpQuery:
    return _HttpQuery("/api/executions/summary", _given(which))


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _options(base_url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    headers = {"accept": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return {"base_url": base_url.rstrip("/"), "headers": headers, "timeout": timeout_s}


def _unreachable(exc: httpx2.HTTPError) -> UnreachableError:
    why = "it did not answer in time" if isinstance(exc, httpx2.TimeoutException) else str(exc) or type(exc).__name__
    return UnreachableError(f"{exc.request.url}: the gateway cannot be reached: {why}. Is pml serve running there?")


def _read(response: httpx2.Response) -> Any:
    try:
        body: Any = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        body = None
    if response.status_code == httpx2.codes.OK and isinstance(body, dict):
        return body
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        what = f"{response.url}: status {response.status_code}, which is no answer of PML's history."
        raise UnreachableError(f"{what} Check the address.", status=response.status_code)
    raise _error(response.status_code, error)


def _error(status: int, error: Mapping[str, Any]) -> HistoryError:
    kind = BY_STATUS.get(status, GatewayFailedError if status >= SERVER_ERRORS else HistoryError)
    message, about = error["message"], {"status": status, "code": str(error.get("code", ""))}
    if kind is TooOftenError:
        return TooOftenError(message, retry_after_s=float(error.get("retry_after_s", 1.0)), **cast("Any", about))
    return kind(message, **cast("Any", about))


class HistoryClient:
    """For programs without an event loop."""

    def __init__(self, base_url: str, *, key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """``base_url`` is the listener's, such as ``http://127.0.0.1:8808``; ``key`` the caller's, if it has one."""
        self._http = httpx2.Client(**_options(base_url, key, timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def list_recent_executions(
        self,
        *,
        agent_name: str | None = None,
        status: ExecutionStatus | None = None,
        triggered_by: TriggeredBy | None = None,
        hours: float | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionList:
        """Executions that clients asked for, newest first.

        Args:
            agent_name: Of this agent only.
            status: In this state only.
            triggered_by: By this trigger only.
            hours: How far to look back, 1 to 168 [h].
            since: From when on, in place of ``hours``: a date or time in ISO 8601, or an age such as ``30d``.
            until: Until when, a date to its end; None for now.
            limit: Most in one page, 1 to 100.
            cursor: ``next_cursor`` of the page before.
        """
        filters = {"agent_name": agent_name, "status": status, "triggered_by": triggered_by}
        times = {"hours": hours, "since": since, "until": until}
        answer: ExecutionList = self._ask(_list({**filters, **times, "limit": limit, "cursor": cursor}))
        return answer

    def search_executions(  # noqa: PLR0913 - what the route takes
        self,
        query: str,
        *,
        agent_name: str | None = None,
        status: ExecutionStatus | None = None,
        triggered_by: TriggeredBy | None = None,
        hours: float | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionList:
        """Those with all words of ``query`` in what was asked, answered or went wrong; else as the list."""
        filters = {"agent_name": agent_name, "status": status, "triggered_by": triggered_by}
        times = {"hours": hours, "since": since, "until": until}
        answer: ExecutionList = self._ask(_search(query, {**filters, **times, "limit": limit, "cursor": cursor}))
        return answer

    def get_execution_result(
        self, agent_name: str, execution_id: str, *, include_transcript: bool = False
    ) -> ExecutionResult:  # fmt: skip
        """One execution, ended or not.

        Raises:
            NoSuchExecutionError: There is none such that the key may see.
        """
        answer: ExecutionResult = self._ask(_result(agent_name, execution_id, include_transcript=include_transcript))
        return answer

    @overload
    def get_activity_summary(
        self, *, agent_name: None = None, hours: float | None = None, since: str | None = None, until: str | None = None
    ) -> FleetSummary: ...
    @overload
    def get_activity_summary(
        self, *, agent_name: str, hours: float | None = None, since: str | None = None, until: str | None = None
    ) -> AgentSummary: ...
    def get_activity_summary(
        self,
        *,
        agent_name: str | None = None,
        hours: float | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AgentSummary | FleetSummary:
        """What one agent did, or without a name all of them together.

        Args:
            agent_name: Which one.
            hours: How far to look back, 1 to 168 [h].
            since: As for the list.
            until: As for the list.
        """
        which = {"agent_name": agent_name, "hours": hours, "since": since, "until": until}
        answer: AgentSummary | FleetSummary = self._ask(_summary(which))
        return answer

    def _ask(self, question: _HttpQuery) -> Any:
        try:
            return _read(self._http.get(question.path, params=question.query))
        except httpx2.HTTPError as exc:
            raise _unreachable(exc) from exc


class AsyncHistoryClient:
    """For programs with an event loop; as :class:`HistoryClient`, awaited."""

    def __init__(self, base_url: str, *, key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """``base_url`` is the listener's, such as ``http://127.0.0.1:8808``; ``key`` the caller's, if it has one."""
        self._http = httpx2.AsyncClient(**_options(base_url, key, timeout_s))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def list_recent_executions(
        self,
        *,
        agent_name: str | None = None,
        status: ExecutionStatus | None = None,
        triggered_by: TriggeredBy | None = None,
        hours: float | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionList:
        """As :meth:`HistoryClient.list_recent_executions`."""
        filters = {"agent_name": agent_name, "status": status, "triggered_by": triggered_by}
        times = {"hours": hours, "since": since, "until": until}
        answer: ExecutionList = await self._ask(_list({**filters, **times, "limit": limit, "cursor": cursor}))
        return answer

    async def search_executions(  # noqa: PLR0913 - what the route takes
        self,
        query: str,
        *,
        agent_name: str | None = None,
        status: ExecutionStatus | None = None,
        triggered_by: TriggeredBy | None = None,
        hours: float | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionList:
        """As :meth:`HistoryClient.search_executions`."""
        filters = {"agent_name": agent_name, "status": status, "triggered_by": triggered_by}
        times = {"hours": hours, "since": since, "until": until}
        question = _search(query, {**filters, **times, "limit": limit, "cursor": cursor})
        answer: ExecutionList = await self._ask(question)
        return answer

    async def get_execution_result(
        self, agent_name: str, execution_id: str, *, include_transcript: bool = False
    ) -> ExecutionResult:  # fmt: skip
        """As :meth:`HistoryClient.get_execution_result`."""
        question = _result(agent_name, execution_id, include_transcript=include_transcript)
        answer: ExecutionResult = await self._ask(question)
        return answer

    @overload
    async def get_activity_summary(
        self, *, agent_name: None = None, hours: float | None = None, since: str | None = None, until: str | None = None
    ) -> FleetSummary: ...
    @overload
    async def get_activity_summary(
        self, *, agent_name: str, hours: float | None = None, since: str | None = None, until: str | None = None
    ) -> AgentSummary: ...
    async def get_activity_summary(
        self,
        *,
        agent_name: str | None = None,
        hours: float | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AgentSummary | FleetSummary:
        """As :meth:`HistoryClient.get_activity_summary`."""
        which = {"agent_name": agent_name, "hours": hours, "since": since, "until": until}
        answer: AgentSummary | FleetSummary = await self._ask(_summary(which))
        return answer

    async def _ask(self, question: _HttpQuery) -> Any:
        try:
            return _read(await self._http.get(question.path, params=question.query))
        except httpx2.HTTPError as exc:
            raise _unreachable(exc) from exc
