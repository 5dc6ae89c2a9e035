"""``tools/call``: from a client's params to a task, and from its outcome to the client's answer. Both eras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pml_catalog.lengths import NAME, bounded
from pml_hookspecs import (
    EMPTY,
    DryRun,
    Failure,
    Json,
    Outcome,
    RawObject,
    RpcError,
    RunOptions,
    Session,
    Status,
    Task,
    ToolCall,
    ToolId,
)
from pml_kit.json_members import OURS, join, meta_of, split, with_meta, without_meta
from pml_kit.mcp.protocol import INVALID_PARAMS
from pml_mcp.wire.tool_results import text_result, tool_result

if TYPE_CHECKING:
    from pml_mcp.ports import Dispatcher

    from .answers import Answers

META_INTENT, META_DRY_RUN = "pml/intent", "pml/dry_run"
"""Keys of ``_meta`` by which a client may say what it is up to, and ask for a rehearsal of one call."""
META_LEVEL = "pml/dry_run_level"
"""Key of ``_meta``: how the rehearsal treats what it does not know."""
META_LOCKED = "pml/dry_run_only"
"""Key of ``_meta`` of an answer: why it is a rehearsal though more was asked for."""
OWN = "pml/"
"""Begins the keys of ``_meta`` that are meant for the gateway, and told to what runs by ``Run.meta``."""
ASKED = (META_DRY_RUN, META_LEVEL, META_INTENT)
"""All of those keys that a request may have."""
TAKEN = OURS | {META_DRY_RUN, META_LEVEL}
"""Keys of ``_meta`` that go no further."""
SERVERS_OWN = "tool.failed"
"""Code of the failure that a result with ``isError`` becomes: the result itself says it better."""
LONGEST_SHOWN = 80
"""Characters of a wrong key that a message shows."""
_name = msgspec.json.Decoder(str).decode

TRACE_CONTEXT = ("traceparent", "tracestate", "baggage")
"""Keys without a prefix (SEP-414). Servers are told of them by whoever traces."""
LONGEST_TRACE = 8192
"""Longest value of one that is kept [characters]."""


class ProgressSink(Protocol):
    """Whoever hears of progress."""

    def progress(self, note: Mapping[str, Any]) -> None:
        """Take the params of a progress notification."""
        ...


class Caller(ProgressSink, Protocol):
    """Whoever calls a tool."""

    @property
    def session(self) -> Session:
        """Who it is."""
        ...


class ToolCalls:
    """Answers ``tools/call``."""

    def __init__(self, dispatcher: Dispatcher, answers: Answers) -> None:
        self._dispatcher, self._answers = dispatcher, answers

    async def __call__(self, params: RawObject, client: Caller) -> Mapping[str, Any]:
        """The ``CallToolResult`` as the tool's server sent it, or one of the gateway's own.

        Raises:
            RpcError: The params are not understood, the tool does not exist, or its server answered with an error.
        """
        try:
            members = split(params.raw)
            name = bounded(_name(members.pop("name")), "the name of the tool", NAME)
            arguments = bytes(members.pop("arguments", b"{}"))
        except (msgspec.MsgspecError, KeyError) as exc:
            raise RpcError(INVALID_PARAMS, f"tools/call needs a name: {exc}") from exc
        if arguments[:1] != b"{":
            if arguments != b"null":
                raise RpcError(INVALID_PARAMS, "tools/call: arguments must be an object")
            arguments = b"{}"
        session = client.session
        meta: dict[str, Any] = {}
        token = None
        if "_meta" in members:
            meta = meta_of(params)
            token = meta.get("progressToken")
            members = without_meta(members, TAKEN)
        task = ToolCall(
            id="call",
            tool=ToolId(name),
            arguments=RawObject(arguments, params.get("arguments") or {}),
            extra=join(members) if members else {},
        )
        intent = bounded(meta.get(META_INTENT), "the intent")
        options = RunOptions(
            intent=intent if isinstance(intent, str) and intent else session.intent,
            dry_run=dry_run_of(meta) if meta else None,
            trigger="mcp",
            meta=own_of(meta) if meta else EMPTY,
            progress=None if token is None else progress_to(client, token),
        )
        ran, outcome = await self._dispatcher.start_resolved(task, session, options)
        output = _servers_own(ran, outcome)
        if output is None:
            answer = await self._of_gateway(ran, outcome)
        else:
            selected = await self._answers.selected(output, ran)
            answer = selected if isinstance(selected, Mapping) else output
        answer = await self._answers.shaped(answer, ran, session)
        note = self._dispatcher.rehearsals.note(session, ran, options.dry_run)
        return _noted(answer, note) if note else answer

    async def _of_gateway(self, task: Task, outcome: Outcome) -> Mapping[str, Any]:
        """What the gateway says itself: a failure of its own never looks like a success."""
        if not isinstance(task, ToolCall):
            return await self._of_task(task, outcome)
        failure = outcome.failure
        if failure is None:
            return tool_result(outcome.output)
        if isinstance(rpc := failure.details.get("rpc"), Mapping):
            code: Any = rpc["code"]
            # The message of the failure begins with the server's, and may say more.
            raise RpcError(code, failure.message, rpc.get("data"))
        if failure.code == "tool.unknown":
            raise RpcError(INVALID_PARAMS, failure.message, dict(failure.details))
        return failed_result(failure)

    async def _of_task(self, task: Task, outcome: Outcome) -> Mapping[str, Any]:
        failure = outcome.failure
        if failure is not None and outcome.output is None:
            return failed_result(failure)
        is_error = failure is not None and outcome.status is not Status.INPUT_REQUIRED
        result = value_result(await self._answers.selected(outcome.output, task), is_error=is_error)
        return with_meta(result, outcome.meta) if outcome.meta else result


def _servers_own(task: Task, outcome: Outcome) -> Mapping[str, Any] | None:
    """What a tool's server answered, as it came; None where the answer is the gateway's."""
    if not isinstance(task, ToolCall) or not isinstance(outcome.output, Mapping):
        return None
    failure = outcome.failure
    return outcome.output if failure is None or failure.code == SERVERS_OWN else None


def value_result(value: Json, *, is_error: bool) -> RawObject:
    """The value of a workflow or a piece of code, wrapped as a ``CallToolResult``."""
    if isinstance(value, str):
        return text_result(value, is_error=is_error)
    # As of tools: who gives a RawObject has made its text, too.
    return tool_result(value, is_error=is_error, indented=not isinstance(value, RawObject))


def _noted(answer: Mapping[str, Any], note: str) -> RawObject:
    """``answer`` with a text for whoever reads it, and with its mark for programs."""
    content = answer.get("content")
    texts = [*(content if isinstance(content, list) else ()), {"type": "text", "text": note}]
    return with_meta(RawObject.of({**answer, "content": texts}), {META_LOCKED: note})


def own_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``_meta`` is meant for the gateway, and the trace that the request belongs to.

    Raises:
        RpcError: There is no such key: whoever misspells that a call is to be rehearsed does not want it to run.
    """
    own = {name: value for name, value in meta.items() if name.startswith(OWN)}
    for name in own:
        if name not in ASKED:
            near = get_close_matches(name[:LONGEST_SHOWN], ASKED, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ASKED)}."
            raise RpcError(
                INVALID_PARAMS, f"Nothing was run: no key of _meta is called {name[:LONGEST_SHOWN]!r}; {hint}"
            )
    trace = {name: value for name in TRACE_CONTEXT if isinstance(value := meta.get(name), str)}
    return own | {name: value for name, value in trace.items() if len(value) <= LONGEST_TRACE}


def dry_run_of(meta: Mapping[str, Any]) -> DryRun | None:
    """What ``_meta`` says about a rehearsal; None when nothing.

    Raises:
        RpcError: It is none of what may be said.
    """
    asked = meta.get(META_DRY_RUN)
    if asked is None or isinstance(asked, bool):
        return asked
    if asked == "reads":
        return "reads"
    raise RpcError(INVALID_PARAMS, f"_meta[{META_DRY_RUN!r}] must be true, false or 'reads', not {asked!r}")


def progress_to(client: ProgressSink, token: Any) -> Callable[[float, float | None, str], None]:
    """A sink of progress that tells a client, under its own token."""

    def tell(done: float, total: float | None, message: str) -> None:
        note: dict[str, Any] = {"progressToken": token, "progress": done}
        if total is not None:
            note["total"] = total
        if message:
            note["message"] = message
        client.progress(note)

    return tell


def failed_result(failure: Failure) -> RawObject:
    """A failure of the gateway's own as a tool result that a model can act on."""
    about = {"code": failure.code, "retryable": failure.retryable, "details": failure.details}
    content = [{"type": "text", "text": failure.message}]
    return RawObject.of({"content": content, "isError": True, "_meta": {"pml/failure": about}})
