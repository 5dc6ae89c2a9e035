"""The hook plugin ``workflow_tool``: ``execute_workflow``, which clients call to run a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, MetaTool, Workflow, hookimpl

from .executor import refusal

if TYPE_CHECKING:
    from pml_hookspecs import Services

NAME = "execute_workflow"
ALIASES = ("execute_dag", "pml_execute_dag")

DEFINITION: Mapping[str, Any] = {
    "name": NAME,
    "description": (
        "Run tools as a graph, in parallel unless one needs another. In arguments, a string "
        '"{{id.path[0].name}}" becomes that part of task id\'s result, and so a dependency; \\{{ is plain text. '
        "Returns the result of every task."
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
                                "tool": {"type": "string"},
                                "arguments": {"type": "object"},
                                "depends_on": {"type": "array", "items": {"type": "string"}},
                            },
                            "required": ["id", "tool"],
                        },
                    }
                },
                "required": ["tasks"],
            },
            "intent": {"type": "string"},
            "dry_run": {
                "type": "boolean",
                "description": "If true, simulate execution without side effects",
                "default": False,
            },
        },
        "required": ["workflow"],
    },
}
"""Kept short, since it stands in every client's context; type "workflow" is only told in the documentation."""


def workflow_from(arguments: Mapping[str, Any]) -> Workflow:
    """The workflow that ``arguments`` ask for.

    Raises:
        InvalidArguments: The message lists every mistake, with its place and what to do.
    """
    from .arguments import read

    workflow, mistakes = read(arguments)
    if mistakes:
        raise InvalidArguments(refusal(mistakes))
    return workflow


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:  # noqa: ARG001 - nothing of the gateway is needed
    """``execute_workflow`` and its two other names (GAP-24)."""
    return [MetaTool(definition=DEFINITION, task=workflow_from, aliases=ALIASES)]
