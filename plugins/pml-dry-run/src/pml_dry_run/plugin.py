"""The hook plugin ``dry_run``: in a dry run, answers in place of everything that could have an effect."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, Outcome, Phase, Status, ToolCall, Workflow, encode, hookimpl

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Catalog, Run, Services, Task, Wrapper

META = "pml/simulated"
"""Member of a simulated result's ``_meta`` that says what it is."""


class DryRun:
    """Keeps every task of a dry run from having effects (DRY-8, DRY-9, GAP-9).

    A workflow goes on, and its tasks come back here one by one. So do the gateway's own tools that only read. All
    else is answered with a made-up result that says so.
    """

    phase = Phase.SUBSTITUTE

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let the task pass when it is for real; else make up how it ends."""
        if not run.dry_run or isinstance(task, Workflow) or self._is_own_reading(task):
            return call_next(task, run)
        return self._simulated(task)

    async def _simulated(self, task: Task) -> Outcome:
        output = self._result(task) if isinstance(task, ToolCall) else _placeholder(task)
        now = datetime.now(UTC)
        return Outcome(task_id=task.id, status=Status.SIMULATED, started_at=now, duration_ms=0, output=output)

    def _is_own_reading(self, task: Task) -> bool:
        entry = self._catalog.get(task.tool) if isinstance(task, ToolCall) else None
        if entry is None or not entry.own:
            return False
        annotations = entry.definition.get("annotations")
        return isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True

    def _result(self, task: ToolCall) -> dict[str, Any]:
        """A ``CallToolResult``, from the tool's output schema if that allows."""
        content = [{"type": "text", "text": f"Simulated execution of {task.tool}"}]
        about = {"source": "placeholder", "tool": task.tool, "task_id": task.id, "status": "completed"}
        result: dict[str, Any] = {"content": content}
        if (value := self._from_schema(task)) is not None:
            about["source"] = "schema"
            content.append({"type": "text", "text": encode(value).decode()})
            result["structuredContent"] = value
        return {**result, "_meta": {META: about}}

    def _from_schema(self, task: ToolCall) -> Mapping[str, Any] | None:
        entry = self._catalog.get(task.tool)
        schema = entry.definition.get("outputSchema") if entry is not None else None
        if not isinstance(schema, Mapping):
            return None
        from .sample import sample
        from .schema import CannotSampleError

        try:
            value = sample(schema)
        except CannotSampleError:
            return None
        return value if isinstance(value, Mapping) else None


def _placeholder(task: Task) -> dict[str, Any]:
    kind, name = type(task).__name__, type(task).__name__
    if isinstance(task, CodeRun):
        kind, name = "code_execution", f"{task.language} code"
    elif isinstance(task, CapabilityRun):
        kind, name = "capability", f"capability {task.capability_id}"
    about = {"task_id": task.id, "type": kind, "status": "completed"}
    return {**about, "output": f"Simulated execution of {name}", "_meta": {META: {"source": "placeholder"}}}


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper, without settings: whether a run is a rehearsal is the gateway's decision."""
    return [DryRun(services.catalog)]
