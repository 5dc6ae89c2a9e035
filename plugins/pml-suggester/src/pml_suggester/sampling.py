"""Let the client's own model plan: what it is asked, and what is made of its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ToolCall, Workflow
from pml_kit.mcp.tool_schemas import input_schema, output_schema
from pml_kit.offers import Suggestion

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry

    from .settings import Settings

LONGEST_DESCRIPTION = 300
OF_A_MODEL = 0.6
"""Confidence in a plan that a model wrote: enough to suggest it, too little to run it at once. No model says itself how
far it is to be trusted, as whoever wrote the intent, or a tool's description, would say so through it."""
FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
SYSTEM = (
    "You plan calls of tools. Use only the tools listed. Answer with one JSON object and nothing else: "
    '{"tasks": [{"id": "a", "tool": "server:tool", "arguments": {}, "depends_on": []}], "why": ""}. '
    "An argument may be {{id.path}} to refer to the result of a task that is named in depends_on. Invent no values. "
    'why is one sentence. If the tools cannot do it, or something that one needs is unknown, answer {"tasks": [], '
    '"why": "..."}.'
)


def question(intent: str, candidates: Sequence[CatalogEntry], settings: Settings) -> dict[str, Any]:
    """Params of ``sampling/createMessage`` (MCP, sampling)."""
    tools = [
        {
            "tool": entry.id,
            "description": entry.description[:LONGEST_DESCRIPTION],
            "arguments": input_schema(entry) or {},
            **({"result": output_schema(entry)} if output_schema(entry) is not None else {}),
        }
        for entry in candidates
    ]
    text = f"Tools:\n{json.dumps(tools, ensure_ascii=False, default=dict)}\n\nWhat is to be done:\n{intent}"
    return {
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        "systemPrompt": SYSTEM,
        "maxTokens": settings.max_tokens,
        "temperature": 0,
    }


def answered(result: Mapping[str, Any], intent: str, catalog: Catalog, settings: Settings) -> Suggestion | None:
    """The plan that a model wrote; None when it wrote none, or one that cannot be.

    Only tools of the catalog count; whether the caller may have them is checked when they are called.
    """
    plan = _json(_text(result))
    tasks = plan.get("tasks")
    if not isinstance(tasks, list) or not 0 < len(tasks) <= settings.max_steps:
        return None
    calls = [_call(task, catalog) for task in tasks]
    made = tuple(call for call in calls if call is not None)
    ids = {call.id for call in made}
    if len(made) != len(tasks) or len(ids) != len(made) or any(not ids.issuperset(call.depends_on) for call in made):
        return None
    why = plan.get("why")
    return Suggestion(
        workflow=Workflow(id="workflow", tasks=made, intent=intent),
        confidence=OF_A_MODEL,
        why=f"Planned by the client's model: {why}"
        if isinstance(why, str) and why
        else "Planned by the client's model.",
    )


def _call(task: Any, catalog: Catalog) -> ToolCall | None:
    if not isinstance(task, Mapping):
        return None
    id, tool = task.get("id"), task.get("tool")
    arguments, depends_on = task.get("arguments", {}), task.get("depends_on", [])
    entry = catalog.resolve(tool) if isinstance(tool, str) else None
    if entry is None or entry.own or not isinstance(id, str) or not ID.fullmatch(id):
        return None
    if not isinstance(arguments, Mapping) or not isinstance(depends_on, list):
        return None
    if not all(isinstance(name, str) for name in depends_on):
        return None
    return ToolCall(id=id, tool=entry.id, arguments=dict(arguments), depends_on=tuple(depends_on))


def _text(result: Mapping[str, Any]) -> str:
    content = result.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [b.get("text") for b in blocks if isinstance(b, Mapping) and b.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _json(text: str) -> Mapping[str, Any]:
    fenced = FENCED.search(text)
    try:
        found = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}
