"""Digests of the parts of a plan: equal exactly when nothing in it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, Task, ToolCall, Workflow, replace
from pml_hookspecs.tasks import ONCE
from pml_kit.plain import to_plain
from pml_kit.references import values_of

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Session

WORDS: Mapping[str, str] = {
    "kind": "what it runs",
    "target": "which tool it calls",
    "arguments": "its arguments",
    "definition": "the definition of the tool {target}",
    "tools": "the definitions of tools that its code may call",
    "depends_on": "what it depends on",
    "step": "its options",
}
"""What is said of a task that changed, by the part that did; only the first one is said."""
MOST_TOLD = 10
LIMITS = ("max_parallel", "timeout_s", "max_tool_calls", "max_cost_usd", "durable", "by_layer")

Parts = dict[str, dict[str, str]]
"""By path of the task; ``""`` for the plan itself."""


class _Tools:
    """Those that one who plans may know of: no digest tells of the definition of another."""

    def __init__(self, catalog: Catalog, session: Session | None) -> None:
        self._catalog, self._session = catalog, session

    def resolve(self, name: str) -> CatalogEntry | None:
        return self._catalog.resolve(name, self._session)

    def __iter__(self) -> Iterator[CatalogEntry]:
        visible = None if self._session is None else self._catalog.visible(self._session)
        return (entry for entry in self._catalog if visible is None or entry.id in visible)


def parts_of(workflow: Workflow, catalog: Catalog, session: Session | None = None) -> Parts:
    """The parts of a plan of ``session``. What it is for, and whether it is rehearsed, are none."""
    tools = _Tools(catalog, session)
    limits = {name: getattr(workflow, name) for name in LIMITS}
    order = [task.id for task in workflow.tasks]
    return {"": {"step": _hash(limits), "depends_on": _hash(order)}, **dict(_parts(workflow.tasks, "", tools))}


def _parts(tasks: Sequence[Task], above: str, tools: _Tools) -> Iterator[tuple[str, dict[str, str]]]:
    for i, task in enumerate(tasks):
        path = f"{above}{task.id}"
        # Ids that are used twice are a mistake of which the executor tells.
        yield f"{path}#{i}" if any(task.id == other.id for other in tasks[:i]) else path, _of_task(task, tools)
        if (undo := task.step.compensate) is not None:
            yield f"{path}~undo", _of_task(undo, tools)
            if isinstance(undo, Workflow):
                yield from _parts(undo.tasks, f"{path}~undo/", tools)
        if isinstance(task, Workflow):
            yield from _parts(task.tasks, f"{path}/", tools)


def _of_task(task: Task, tools: _Tools) -> dict[str, str]:
    parts = {
        "kind": _hash(_rest(task)),
        "arguments": _hash(values_of(task)),
        "depends_on": _hash(sorted(task.depends_on)),
        "step": _hash(replace(task.step, compensate=None)),
    }
    if isinstance(task, ToolCall):
        entry = tools.resolve(task.tool)
        parts["target"] = task.tool if entry is None else entry.id
        parts["definition"] = "" if entry is None else entry.digest
    elif isinstance(task, CodeRun):
        parts["tools"] = _hash({entry.id: entry.digest for entry in _reached(task, tools)})
    return parts


def _rest(task: Task) -> dict[str, Any]:
    """What no other part tells."""
    if isinstance(task, Workflow):
        limits = {name: getattr(task, name) for name in LIMITS}
        return {"kind": "workflow", "order": [inner.id for inner in task.tasks], **limits}
    plain = to_plain(replace(task, depends_on=(), step=ONCE))
    return {name: value for name, value in plain.items() if name not in ("tool", "arguments", "inputs", "extra")}


def _reached(task: CodeRun, tools: _Tools) -> Iterator[CatalogEntry]:
    """Tools that code may call, where it says which; otherwise those that it names."""
    for entry in tools:
        if task.tools is not None:
            if any(fnmatchcase(entry.id, pattern) for pattern in task.tools):
                yield entry
        elif any(name in task.source for name in (f"{entry.server}.{entry.name}", entry.id)):
            yield entry


def digest_of(parts: Mapping[str, Any]) -> str:
    """Digest of the whole plan: SHA-256, hex."""
    return _hash(parts)


def key_of(digest: str, principal: str) -> str:
    """Under which the parts of a rehearsed plan are kept."""
    return _hash([principal, digest])


def changes(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is different now, in the order of the plan, one line for each task."""
    told = [f"task {path!r} is new" for path in now if path not in before]
    told += [f"task {path!r} is gone" for path in before if path not in now]
    told += [line for path in now if path in before and (line := _change(path, before[path], now[path]))]
    return told if len(told) <= MOST_TOLD else [*told[:MOST_TOLD], f"and {len(told) - MOST_TOLD} more"]


def _change(path: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    different = [name for name in WORDS if before.get(name) != now.get(name)]
    if "target" in different and "definition" in different:
        different.remove("definition")
    words = " and ".join(WORDS[name].format(target=now.get("target", "")) for name in different)
    if not words:
        return ""
    return f"task {path!r}: {words}" if path else "the limits of the plan, or the order of its tasks"


def _hash(value: Any) -> str:
    text = json.dumps(_canonical(to_plain(value)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    """1.0 is 1, as for whoever reads JSON."""
    if isinstance(value, dict):
        return {name: _canonical(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
