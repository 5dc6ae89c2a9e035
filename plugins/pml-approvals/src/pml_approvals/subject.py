"""What is to be approved: a task, told for a human and pinned down by a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, PluginTask, ServerRequest, ToolCall, Workflow
from pml_kit.plain import kind_of, to_plain

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Task


@dataclass(frozen=True, slots=True)
class Subject:
    """A task that waits for a human's word."""

    kind: str
    """As :func:`pml_kit.plain.kind_of` says."""
    target: str
    """The tool's id, the language, the capability's id, the workflow's id in its plan."""
    request: Any
    """Arguments, or source and inputs; JSON, secrets included."""
    digest: str
    """SHA-256, hex, over what it is, its definition, its arguments and :attr:`flows`: of another call another one."""
    flows: Sequence[str] = ()
    """Which values of untrusted servers would decide what it does, as :data:`pml_kit.offers.FLOWS` tells."""

    @property
    def named(self) -> str:
        """The task as the subject of a sentence."""
        return NAMES[self.kind].format(self.target)

    def question(self, request: Any) -> str:
        """One question for a human; ``request`` is what may be shown of the arguments."""
        what = WORDS[self.kind]
        text = json.dumps(request, ensure_ascii=False, default=dict)
        shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"
        return "\n".join((f"{what} {self.target} with {shown}?", *self.flows))


WORDS = {
    "tool": "Call",
    "code": "Run code in",
    "capability": "Run the capability",
    "workflow": "Run the whole plan",
    "request": "Ask for",
}
NAMES = {
    "tool": "The call of {}",
    "code": "Code in {}",
    "capability": "The capability {}",
    "workflow": "The plan {!r}",
    "request": "The request for {}",
}
LONGEST = 2000
"""Characters of arguments that a question shows."""


def subject_of(task: Task, catalog: Catalog, flows: Sequence[str] = ()) -> Subject:
    """What a human is asked about ``task``, into which ``flows`` lead."""
    definition, target = "", ""
    if isinstance(task, ToolCall):
        entry = catalog.get(task.tool)
        definition = "" if entry is None else entry.digest
        target, request = task.tool, to_plain(task.arguments)
    elif isinstance(task, ServerRequest):
        target, request = task.name, {"method": task.method, "params": to_plain(task.params)}
    elif isinstance(task, Workflow):
        target, request = task.id, {"tasks": [to_plain(node) for node in task.tasks]}
    elif isinstance(task, PluginTask):
        target, request = task.type, to_plain(task.inputs)
    else:
        target = task.language if isinstance(task, CodeRun) else task.capability_id
        request = {"source": task.source, "inputs": to_plain(task.inputs)}
    kind = kind_of(task)
    return Subject(kind, target, request, _digest(kind, target, definition, request, *flows), flows)


def _digest(*parts: Any) -> str:
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def hints(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool's annotations; empty when it has none, or none that can be read."""
    found = definition.get("annotations")
    return found if isinstance(found, Mapping) else {}
