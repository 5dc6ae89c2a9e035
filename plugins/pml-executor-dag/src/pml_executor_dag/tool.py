"""The hook plugin ``workflow_tool``: ``execute_workflow``, which clients call to run a workflow, and its companions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, Offer, Workflow, hookimpl, replace, setting
from pml_kit.mcp.effects import PermissionClasses, in_classes
from pml_kit.offers import GUIDES, SELECTORS, STATIC_CHECKS, Guide, required

if TYPE_CHECKING:
    from pml_hookspecs import Json, Run, Services, Task, Wrapper

NAME = "execute_workflow"
ALIASES = ("execute_dag", "pml_execute_dag")

DEFINITION: Mapping[str, Any] = {
    "name": NAME,
    "description": (
        "Run tools or code (type code_execution) as a graph, parallel unless one needs another. In arguments, "
        '"{{id.path[0].name}}" is that part of id\'s result (no .result) and a dependency; \\{{ is plain text. '
        "Answers last results; return: others or all; select: JMESPath. "
        "If it writes, dry_run first; plan_digest runs just that. Without workflow: suggests. "
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
                                "tool": {},
                                "arguments": {"type": "object"},
                                "code": {},
                                "language": {},
                                "depends_on": {"type": "array", "items": {"type": "string"}},
                                "when": {},
                                "for_each": {},
                                "retry": {},
                            },
                        },
                    },
                    "return": {},
                    "select": {},
                },
            },
            "intent": {},
            "dry_run": {
                "type": "boolean",
                "description": "If true, simulate execution without side effects",
                "default": False,
            },
            "plan_digest": {},
        },
    },
}
"""Kept short, since it stands in every client's context; what else a task may have is only told in the documentation,
and by the messages about what is wrong."""

READING: Mapping[str, Any] = {
    "name": f"{NAME}_read",
    "description": f"{NAME} for plans that only read; a task that does more is refused.",
    "inputSchema": {
        "type": "object",
        "properties": {"workflow": {"type": "object"}, "intent": {}, "dry_run": {"type": "boolean"}},
    },
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
}
"""For clients that ask their users by annotations: a plan may do anything, and so they ask before each."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.workflow_tool]``."""

    permission_classes: PermissionClasses = setting(
        "auto", "Who is shown execute_workflow_read beside execute_workflow; as of [plugins.search_tools] if not set."
    )


settings_type = Settings
settings_fallback = "search_tools"


def workflow_from(arguments: Mapping[str, Any], types: Collection[str] = ()) -> Workflow:
    """The workflow that ``arguments`` ask for; with its mistakes, if there are any.

    They do not keep it from being looked at, so that whatever else is wrong with it is told in the same message.
    """
    from .arguments import read

    workflow, mistakes = read(arguments, types)
    # Whoever sent it is to hear of them, now.
    return replace(workflow, mistakes=tuple(mistakes), wait=True, durable=False) if mistakes else workflow


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """Gives rehearsed plans a digest, and holds plans to theirs."""
    from .pauses.agreement import Agreement

    return [Agreement(services)]


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    """How plans are written, and what clients are answered of them."""
    from .guide import DESCRIPTION, QUESTIONS, TEXT

    async def selected(output: Json, task: Task) -> Json:
        if not isinstance(task, Workflow):
            return output
        from .answers import selected_answer

        return await selected_answer(output, task)

    guide = Guide(name="workflows", description=DESCRIPTION, text=TEXT, questions=QUESTIONS)
    return [Offer(GUIDES, guide), Offer(SELECTORS, selected)]


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``execute_workflow`` and its two other names; ``continue_workflow`` and ``abort_workflow``, unlisted.

    For clients that are shown tools in classes of effects also ``execute_workflow_read``.
    """
    settings: Settings = services.settings or Settings()

    def types() -> Collection[str]:
        return required(services, STATIC_CHECKS).task_types()

    def workflow(arguments: Mapping[str, Any]) -> Workflow:
        return workflow_from(arguments, types())

    reading = MetaTool(definition=READING, task=workflow, listed=in_classes(settings.permission_classes))

    async def go_on(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from .pauses.continuation import carry_out, decision_from

        return await carry_out(decision_from(arguments, types()), services.store.documents, run, services.catalog)

    async def abort(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        return await go_on({**arguments, "decision": "abort"}, run)

    return [
        MetaTool(definition=DEFINITION, task=workflow, aliases=ALIASES),
        *([] if settings.permission_classes == "never" else [reading]),
        MetaTool(definition=CONTINUE, call=go_on, listed=False),
        MetaTool(definition=ABORT, call=abort, listed=False),
    ]
