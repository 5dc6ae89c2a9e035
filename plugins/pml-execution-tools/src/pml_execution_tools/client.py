"""Typed clients of the history over HTTP, for programs that do not speak MCP.

.. code-block:: python

    with HistoryClient("http://127.0.0.1:8808", key=os.environ["PML_KEY"]) as history:
        for execution in history.list_recent_executions(hours=1)["executions"]:
            print(execution["agent_name"], execution["status"], execution["message"])

Needs the extra ``client`` (``pip install 'pml-execution-tools[client]'``). Every method raises a
:class:`HistoryError` when there is no answer. What is not given is not sent; the gateway's defaults hold then. What the
parameters mean says :mod:`.definitions`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, Unpack, cast, overload
from urllib.parse import quote

import httpx2

from .client_results import AgentSummary, ExecutionList, ExecutionResult, FleetSummary, SearchResult
from .definitions import Filters, SummaryArguments, Times

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
Answer = TypeVar("Answer")


class HistoryError(Exception):
    """No answer. The message says what is wrong and what to do."""

    def __init__(self, message: str, *, status: int | None = None, code: str = "") -> None:
        """``status`` is that of HTTP, None without a response; ``code`` is the gateway's."""
        super().__init__(message)
        self.status, self.code = status, code


class UnreachableError(HistoryError):
    """The gateway could not be reached, did not answer in time, or something else answered in its place."""


class KeyRefusedError(HistoryError):
    """There is no key, or one that the gateway does not know (401)."""


class NotAllowedError(HistoryError):
    """The key does not allow it (403)."""


class NoSuchExecutionError(HistoryError):
    """There is no such execution, or it is not the key's to see: the two are not told apart (404)."""


class WrongParameterError(HistoryError):
    """A parameter is wrong; the message names its limits (422)."""


class TooOftenError(HistoryError):
    """A limit is used up (429)."""

    def __init__(self, message: str, *, status: int | None = None, code: str = "", retry_after_s: float = 1.0) -> None:
        """``retry_after_s`` says when to try again [s]."""
        super().__init__(message, status=status, code=code)
        self.retry_after_s = retry_after_s


class GatewayFailedError(HistoryError):
    """The gateway could not answer (5xx)."""


BY_STATUS: dict[int, type[HistoryError]] = {
    401: KeyRefusedError,
    403: NotAllowedError,
    404: NoSuchExecutionError,
    422: WrongParameterError,
    429: TooOftenError,
}


@dataclass(frozen=True, slots=True)
class _Question(Generic[Answer]):
    """What is asked for by HTTP, and what the answer is."""

    path: str
    query: Mapping[str, Any]

    def read(self, response: httpx2.Response) -> Answer:
        """The answer.

        Raises:
            HistoryError: It is none.
        """
        try:
            body: Any = response.json()
        except (json.JSONDecodeError, UnicodeDecodeError):
            body = None
        if response.status_code == httpx2.codes.OK and isinstance(body, dict):
            return cast("Answer", body)
        error = body.get("error") if isinstance(body, dict) else None
        if not isinstance(error, dict) or not isinstance(error.get("message"), str):
            what = f"{response.url}: status {response.status_code}, which is no answer of PML's history."
            raise UnreachableError(f"{what} Check the address.", status=response.status_code)
        raise _error(response.status_code, error)


def _list(which: Filters) -> _Question[ExecutionList]:
    return _Question("/api/executions", _given(which, Filters))


def _search(query: str, which: Filters) -> _Question[SearchResult]:
    return _Question("/api/executions/search", {"query": query, **_given(which, Filters)})


def _result(agent_name: str, execution_id: str, *, with_log: bool) -> _Question[ExecutionResult]:
    path = f"/api/agents/{quote(agent_name, safe='')}/executions/{quote(execution_id, safe='')}"
    return _Question(path, {"include_log": "true"} if with_log else {})


def _summary(agent_name: str | None, times: Times) -> _Question[Any]:
    return _Question("/api/executions/summary", _given({"agent_name": agent_name, **times}, SummaryArguments))


def _given(parameters: Mapping[str, Any], known: type[Any]) -> dict[str, Any]:
    if unknown := sorted(parameters.keys() - known.__annotations__.keys()):
        raise TypeError(f"unknown parameter {unknown[0]!r}; known: {', '.join(known.__annotations__)}")
    return {name: value for name, value in parameters.items() if value is not None}


def _options(base_url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    headers = {"accept": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return {"base_url": base_url.rstrip("/"), "headers": headers, "timeout": timeout_s}


def _unreachable(exc: httpx2.HTTPError) -> UnreachableError:
    why = "it did not answer in time" if isinstance(exc, httpx2.TimeoutException) else str(exc) or type(exc).__name__
    return UnreachableError(f"{exc.request.url}: the gateway cannot be reached: {why}. Is pml serve running there?")


def _error(status: int, error: Mapping[str, Any]) -> HistoryError:
    kind = BY_STATUS.get(status, GatewayFailedError if status >= SERVER_ERRORS else HistoryError)
    about: dict[str, Any] = {"status": status, "code": str(error.get("code", ""))}
    if kind is TooOftenError:
        about["retry_after_s"] = float(error.get("retry_after_s", 1.0))
    return kind(error["message"], **about)


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

    def list_recent_executions(self, **filters: Unpack[Filters]) -> ExecutionList:
        """Executions that clients asked for, newest first."""
        return self._ask(_list(filters))

    def search_executions(self, query: str, **filters: Unpack[Filters]) -> SearchResult:
        """Those with all words of ``query`` in what was asked, answered or went wrong; else as the list."""
        return self._ask(_search(query, filters))

    def get_execution_result(
        self, agent_name: str, execution_id: str, *, include_transcript: bool = False
    ) -> ExecutionResult:  # fmt: skip
        """One execution, ended or not.

        Raises:
            NoSuchExecutionError: There is none such that the key may see.
        """
        return self._ask(_result(agent_name, execution_id, with_log=include_transcript))

    @overload
    def get_activity_summary(self, *, agent_name: None = None, **times: Unpack[Times]) -> FleetSummary: ...
    @overload
    def get_activity_summary(self, *, agent_name: str, **times: Unpack[Times]) -> AgentSummary: ...
    def get_activity_summary(self, *, agent_name: str | None = None, **times: Unpack[Times]) -> Any:
        """What one agent did, or without a name all of them together."""
        return self._ask(_summary(agent_name, times))

    def _ask(self, question: _Question[Answer]) -> Answer:
        try:
            return question.read(self._http.get(question.path, params=dict(question.query)))
        except httpx2.HTTPError as exc:
            raise _unreachable(exc) from exc


class AsyncHistoryClient:
    """For programs with an event loop; as :class:`HistoryClient`, awaited."""

    def __init__(self, base_url: str, *, key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """As :class:`HistoryClient` has it."""
        self._http = httpx2.AsyncClient(**_options(base_url, key, timeout_s))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def list_recent_executions(self, **filters: Unpack[Filters]) -> ExecutionList:
        """As :meth:`HistoryClient.list_recent_executions`."""
        return await self._ask(_list(filters))

    async def search_executions(self, query: str, **filters: Unpack[Filters]) -> SearchResult:
        """As :meth:`HistoryClient.search_executions`."""
        return await self._ask(_search(query, filters))

    async def get_execution_result(
        self, agent_name: str, execution_id: str, *, include_transcript: bool = False
    ) -> ExecutionResult:  # fmt: skip
        """As :meth:`HistoryClient.get_execution_result`."""
        return await self._ask(_result(agent_name, execution_id, with_log=include_transcript))

    @overload
    async def get_activity_summary(self, *, agent_name: None = None, **times: Unpack[Times]) -> FleetSummary: ...
    @overload
    async def get_activity_summary(self, *, agent_name: str, **times: Unpack[Times]) -> AgentSummary: ...
    async def get_activity_summary(self, *, agent_name: str | None = None, **times: Unpack[Times]) -> Any:
        """As :meth:`HistoryClient.get_activity_summary`."""
        return await self._ask(_summary(agent_name, times))

    async def _ask(self, question: _Question[Answer]) -> Answer:
        try:
            return question.read(await self._http.get(question.path, params=dict(question.query)))
        except httpx2.HTTPError as exc:
            raise _unreachable(exc) from exc
