"""The hook plugin ``workflow_tool``: ``execute_workflow``, which clients call to run a workflow, and its companions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Guide, MetaTool, Workflow, hookimpl

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services, Wrapper

NAME = "execute_workflow"
ALIASES = ("execute_dag", "pml_execute_dag")

DEFINITION: Mapping[str, Any] = {
    "name": NAME,
    "description": (
        "Run tools or code (type code_execution) as a graph, in parallel unless one needs another. In arguments, "
        '"{{id.path[0].name}}" is that part of id\'s result (no .result) and a dependency; \\{{ is plain text. '
        "If it writes, dry_run first; its plan_digest runs just that. Without workflow, suggests tools. "
        "Help: guide_workflows."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "workflow": {
                "type": "object",
                "properties": {
                    "tasks": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string"},
                                "type": {"enum": ["tool", "code_execution"]},
                                "tool": {"type": "string"},
                                "arguments": {"type": "object"},
                                "code": {"type": "string"},
                                "language": {"type": "string"},
                                "depends_on": {"type": "array", "items": {"type": "string"}},
                                "when": {},
                                "for_each": {},
                                "retry": {},
                            },
                        },
                    }
                },
            },
            "intent": {"type": "string"},
            "dry_run": {
                "type": "boolean",
                "description": "If true, simulate execution without side effects",
                "default": False,
            },
            "plan_digest": {"type": "string"},
        },
    },
}
"""Kept short, since it stands in every client's context; what else a task may have is only told in the documentation,
and by the messages about what is wrong."""

CONTINUE: Mapping[str, Any] = {
    "name": "continue_workflow",
    "description": (
        "Go on with a workflow whose result said input_required or layer_complete. abort: end it and undo what it says "
        "how to undo. replan: new tasks take the place of all that has not ended well; they may refer to the rest."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "workflow_id": {"type": "string"},
            "decision": {"enum": ["continue", "abort", "replan"]},
            "tasks": {"type": "array", "items": {"type": "object"}, "description": "As for execute_workflow"},
        },
        "required": ["workflow_id", "decision"],
    },
}
ABORT: Mapping[str, Any] = {
    "name": "abort_workflow",
    "description": "End a workflow that waits, and undo what it says how to undo.",
    "inputSchema": {
        "type": "object",
        "properties": {"workflow_id": {"type": "string"}},
        "required": ["workflow_id"],
    },
}


def workflow_from(arguments: Mapping[str, Any]) -> Workflow:
    """The workflow that ``arguments`` ask for; with its mistakes, if there are any.

    They do not keep it from being looked at, so that whatever else is wrong with it is told in the same message.
    """
    from .arguments import read

    workflow, mistakes = read(arguments)
    # Whoever sent it is to hear of them, now.
    return replace(workflow, mistakes=tuple(mistakes), wait=True, durable=False) if mistakes else workflow


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """Gives rehearsed plans a digest, and holds plans to theirs."""
    from .agreement import Agreement

    return [Agreement(services)]


@hookimpl
def pml_guides() -> Iterable[Guide]:
    """How plans are written."""
    from .guide import DESCRIPTION, QUESTIONS, TEXT

    return [Guide(name="workflows", description=DESCRIPTION, text=TEXT, questions=QUESTIONS)]


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``execute_workflow`` and its two other names; ``continue_workflow`` and ``abort_workflow``, unlisted."""

    async def go_on(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from .continuation import carry_out, decision_from

        return await carry_out(decision_from(arguments), services.store.documents, run, services.catalog)

    async def abort(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        return await go_on({**arguments, "decision": "abort"}, run)

    return [
        MetaTool(definition=DEFINITION, task=workflow_from, aliases=ALIASES),
        MetaTool(definition=CONTINUE, call=go_on, listed=False),
        MetaTool(definition=ABORT, call=abort, listed=False),
    ]
