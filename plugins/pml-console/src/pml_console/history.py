"""What the pages ask the gateway: its own tools, through the same chain as every call, with the reader's rights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import (
    GATEWAY_SERVER,
    ExecutionId,
    ExecutionQuery,
    RunOptions,
    ToolCall,
    ToolId,
    UnauthenticatedError,
    encode,
)
from pml_kit.offers import ACCESS, AccessEvent, required

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Scope, Services, Session

LONGEST_TARGET = 200
"""Characters of what was asked for that are reported."""
MOST_INSIDE = 100
"""Executions inside one that are shown."""


def plain(value: Any) -> Any:
    """JSON as lists and dicts, however it is kept."""
    return json.loads(encode(value))


class RefusedError(Exception):
    """What was asked for is not given: why, in words."""


class History:
    """What one reader may see, and do."""

    def __init__(self, services: Services, session: Session) -> None:
        self._services, self._session = services, session

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the gateway's own ``tool`` answers, as structured content.

        Raises:
            RefusedError: It does not run, for this reader or at all.
        """
        task = ToolCall(id="call", tool=ToolId(f"{GATEWAY_SERVER}:{tool}"), arguments=arguments)
        outcome = await self._services.run(task, self._session, RunOptions(trigger="manual"))
        if outcome.failure is not None:
            raise RefusedError(outcome.failure.message)
        output = outcome.output
        content = output.get("structuredContent") if isinstance(output, Mapping) else None
        return content if isinstance(content, Mapping) else {}

    async def ask_installed(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """As :meth:`call`; None where no plugin brings the tool.

        Raises:
            RefusedError: It does not run.
        """
        id = ToolId(f"{GATEWAY_SERVER}:{tool}")
        return None if self._services.catalog.get(id) is None else await self.call(tool, arguments)

    async def record(self, id: str) -> ExecutionRecord | None:
        """One execution; None when there is none that this reader may read. Whoever watches access hears of both.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        found = await self.look(id)
        kind: Literal["query", "refused"] = "refused" if found is None else "query"
        event = AccessEvent(kind=kind, target=f"console {id}"[:LONGEST_TARGET], session=self._session, execution=id)
        await required(self._services, ACCESS).report(event)
        return found

    async def look(self, id: str) -> ExecutionRecord | None:
        """As :meth:`record`, of what the reader has just begun: nobody hears of it.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        return await self._services.store.executions.get(ExecutionId(id), await self._scope())

    async def inside(self, id: str) -> Sequence[ExecutionRecord]:
        """What ran inside an execution, oldest first.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        query = ExecutionQuery(scope=await self._scope(), parent=ExecutionId(id), limit=MOST_INSIDE)
        return list(reversed((await self._services.store.executions.find(query)).items))

    async def _scope(self) -> Scope:
        try:
            return await required(self._services, ACCESS).scope(self._session, results=True)
        except UnauthenticatedError as exc:
            raise RefusedError(str(exc)) from None
